package volumes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// Events of tasks about their volumes.
const (
	EventVolumeUnhealthy = "Volume Unhealthy"
	EventVolumeHealthy   = "Volume Healthy"
)

const (
	probeInterval = 10 * time.Second
	// probeWorkers is how many mounts are asked at once.
	probeWorkers = 16
	// deadAfter is how many times in a row a mount must be silent.
	deadAfter = 2
	// calmAfter is how long a mount must have lived for its next death to be the first again.
	calmAfter = 10 * time.Minute
)

// Tasks are the tasks of the node's allocations, as far as dead mounts concern them. An allocation that is
// not known is an error of class NotFound; tasks that do not run are left alone.
type Tasks interface {
	// Tell records an event of the tasks that mount the volume. It must not block.
	Tell(allocID, volumeID, kind, text string)
	// Restart restarts the tasks that mount the volume, with all every running task of the allocation.
	Restart(ctx context.Context, allocID, volumeID string, all bool, reason string) error
	// Signal sends a signal to the tasks that mount the volume.
	Signal(ctx context.Context, allocID, volumeID, signal, reason string) error
	// Leaving reports whether the allocation was told to end, or has ended.
	Leaving(allocID string) bool
	// Lost reports whether the servers had given the allocation up, as they do with all of a node.
	Lost(allocID string) bool
}

type nobody struct{}

func (nobody) Tell(_, _, _, _ string)                                      {}
func (nobody) Restart(context.Context, string, string, bool, string) error { return nil }
func (nobody) Signal(context.Context, string, string, string, string) error {
	return nil
}
func (nobody) Leaving(string) bool { return false }
func (nobody) Lost(string) bool    { return false }

// Mounting names the tasks of the allocation that mount the volume.
func Mounting(a *api.Allocation, volumeID string) []string {
	g := a.Group()
	if g == nil {
		return nil
	}
	var out []string
	for _, t := range g.Tasks {
		if slices.ContainsFunc(t.VolumeMounts, func(m *api.VolumeMount) bool {
			if strings.Contains(m.Volume, "${") {
				return true // only the task knows
			}
			r := g.Volumes[m.Volume]
			return r != nil && r.Type == api.VolumeTypeCSI && sourceOf(r, a.Name) == volumeID
		}) {
			out = append(out, t.Name)
		}
	}
	return out
}

// patient is what is remembered of one mount.
type patient struct {
	silent int // times in a row
	dead   bool
	deaths int // without calm between them
	last   time.Time
	told   string // the last failure of its cure
}

// ward knows the mounts that are, or were, not well, and the allocations that have volumes.
type ward struct {
	mu       sync.Mutex
	patients map[string]*patient
	allocs   map[string]*api.Allocation
}

func (w *ward) know(a *api.Allocation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.allocs == nil {
		w.allocs = map[string]*api.Allocation{}
	}
	w.allocs[a.ID] = a
}

func (w *ward) forget(allocID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.allocs, allocID)
}

func (w *ward) alloc(id string) *api.Allocation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.allocs[id]
}

// keep drops what is remembered of mounts that are gone.
func (w *ward) keep(rows []*row) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.patients {
		if !slices.ContainsFunc(rows, func(r *row) bool { return r.key() == key }) {
			delete(w.patients, key)
		}
	}
}

// note takes a verdict and reports whether it is news: died with how many deaths were before, or healed.
func (w *ward) note(key string, v verdict, now time.Time) (died, healed bool, before int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.patients[key]
	if p == nil {
		if v != silent && v != broken {
			return false, false, 0
		}
		if w.patients == nil {
			w.patients = map[string]*patient{}
		}
		p = &patient{}
		w.patients[key] = p
	}
	switch v {
	case living:
		healed = p.dead
		p.silent, p.dead, p.told = 0, false, ""
	case silent:
		p.silent++
	case broken:
		p.silent = deadAfter
	}
	if p.dead || p.silent < deadAfter {
		return false, healed, 0
	}
	if now.Sub(p.last) > calmAfter {
		p.deaths = 0
	}
	before = p.deaths
	p.dead, p.last, p.deaths = true, now, p.deaths+1
	return true, false, before
}

// tell reports whether the failure of a cure is another one than before.
func (w *ward) tell(key, failure string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.patients[key]
	if p == nil || p.told == failure {
		return false
	}
	p.told = failure
	return true
}

// watchMounts asks all published mounts again and again whether they live. No mount can hold it up.
func (s *Service) watchMounts(ctx context.Context) {
	tick := time.NewTicker(s.conf.ProbeInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.sweep(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (s *Service) sweep(ctx context.Context) {
	rows := s.journal.rows()
	s.ward.keep(slices.DeleteFunc(slices.Clone(rows), func(r *row) bool { return !curable(r) }))
	rows = slices.DeleteFunc(rows, func(r *row) bool { return r.State != rowMounted })
	if len(rows) == 0 {
		return
	}
	table, err := mounts.Below(s.root)
	if err != nil {
		s.log.Warn("look at mounts", "error", err)
		return
	}
	top := map[string]*mounts.Entry{}
	for _, e := range table {
		top[e.Point] = e
	}
	places := make(chan struct{}, probeWorkers)
	var all sync.WaitGroup
	defer all.Wait()
	for _, r := range rows {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			v, why := s.examine(ctx, r, top[r.Target.Host])
			s.judge(ctx, r, v, why)
		})
	}
}

// examine asks one published mount; at is what is mounted there.
func (s *Service) examine(ctx context.Context, r *row, at *mounts.Entry) (verdict, string) {
	switch {
	case r.device():
		if !isDevice(r.Target.Host) {
			return silent, "it is no block device any more"
		}
		return living, ""
	case at == nil:
		return silent, "nothing is mounted there any more"
	}
	return s.probes.look(ctx, at)
}

// judge tells the news of a mount and plans what the volume's policy wants.
func (s *Service) judge(ctx context.Context, r *row, v verdict, why string) {
	if ctx.Err() != nil || s.journal.row(r.key()) != r {
		return // it has changed meanwhile
	}
	died, healed, before := s.ward.note(r.key(), v, time.Now())
	switch {
	case healed:
		s.tellHealthy(r)
	case died:
		s.log.Warn("a mount is dead", "volume_id", r.VolumeID, "alloc_id", r.AllocID, "path", r.Target.Host, "why", why, "policy", policyOf(r))
		s.conf.Tasks.Tell(r.AllocID, r.VolumeID, EventVolumeUnhealthy,
			fmt.Sprintf("the mount of volume %s at %s is dead: %s; policy is %s", r.VolumeID, r.Target.Host, why, policyOf(r)))
		s.tellMount("Dead mount", r.VolumeID, r.AllocID, fault.New(fault.Unavailable, "%s: %s", r.Target.Host, why))
		if policyOf(r) != api.MountDeadIgnore {
			s.cures.after(r.key(), before)
		}
	}
}

func (s *Service) tellHealthy(r *row) {
	s.log.Info("a dead mount answers again", "volume_id", r.VolumeID, "alloc_id", r.AllocID, "path", r.Target.Host)
	s.conf.Tasks.Tell(r.AllocID, r.VolumeID, EventVolumeHealthy,
		fmt.Sprintf("the mount of volume %s at %s answers again", r.VolumeID, r.Target.Host))
}

// policyOf is what the volume wants of a dead mount.
func policyOf(r *row) string { return orDefault(r.OnMountDead, api.MountDeadIgnore) }
