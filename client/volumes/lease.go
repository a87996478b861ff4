package volumes

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// Lease is what the tasks of an allocation have to keep.
type Lease struct {
	Term api.LeaseTerm
	// Unmount lists the paths to unmount after their end, inner ones first.
	Unmount []string
	// Beside lists where else the same volumes are mounted, for other allocations.
	Beside []string
}

func (r *row) leaseTerm() api.LeaseTerm { return api.LeaseTerm{Term: r.Lease, WriteBack: r.WriteBack} }

// leased lists the rows that have something mounted under a lease.
func (s *Service) leased() []*row {
	return s.journal.find(func(r *row) bool { return r.Lease > 0 && r.touched() && r.State != rowReleased && r.BootID == s.bootID })
}

// Lease is the lease of an allocation's volumes: the one that ends its tasks first. nil means that there is none.
func (s *Service) Lease(allocID string) *Lease {
	var own []*row
	all := s.leased()
	var out *Lease
	for _, r := range all {
		if r.AllocID != allocID {
			continue
		}
		own = append(own, r)
		if out == nil || r.leaseTerm().Stop() < out.Term.Stop() {
			out = &Lease{Term: r.leaseTerm()}
		}
	}
	var staged []string
	for _, r := range own {
		others := slices.DeleteFunc(slices.Clone(all), func(o *row) bool { return o.AllocID == allocID || o.volume() != r.volume() })
		if len(others) > 0 && r.leaseTerm() != out.Term {
			continue // others use it for longer
		}
		out.Unmount = append(out.Unmount, r.Target.Host)
		if r.Stages {
			staged = append(staged, r.Staging.Host)
		}
		for _, o := range others {
			out.Beside = append(out.Beside, o.Target.Host)
		}
	}
	if out != nil {
		out.Unmount = append(out.Unmount, staged...)
	}
	return out
}

// ShortestLease is the lease that ends its users first of all on the node; zero when there is none.
func (s *Service) ShortestLease() (term api.LeaseTerm) {
	for _, r := range s.leased() {
		if l := r.leaseTerm(); term.Term == 0 || l.Stop() < term.Stop() {
			term = l
		}
	}
	return term
}

// overdue is what was begun because leases end: file systems may hold it up.
type overdue struct {
	mu    sync.Mutex
	begun map[string]bool
}

// once does something in a goroutine of its own unless it was begun before.
func (o *overdue) once(key string, do func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.begun[key] {
		return
	}
	if o.begun == nil {
		o.begun = map[string]bool{}
	}
	o.begun[key] = true
	go do()
}

func (o *overdue) forget(keys ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, k := range keys {
		delete(o.begun, k)
	}
}

// EndLeases does what is due after a silence of the servers: volumes whose users nobody else ends are written
// back, and in the end what is mounted still, for whatever reason, is cut off. kept tells the allocations whose
// tasks have a process that does that; it may have died.
func (s *Service) EndLeases(silence time.Duration, kept func(allocID string) bool) {
	for _, r := range s.leased() {
		sync, cut := "sync "+r.key(), "cut "+r.key()
		l := r.leaseTerm()
		if silence < l.Stop() {
			s.overdue.forget(sync)
			continue
		}
		if silence < l.Cut() && !kept(r.AllocID) {
			s.overdue.once(sync, func() { _ = s.host.Sync(r.Target.Host) })
		}
		if silence >= l.Last() {
			// Each time: a call that was under way may mount it once more.
			s.overdue.once(cut, func() { s.cutOff(r); s.overdue.forget(cut) })
		}
	}
}

// leaseOver reports that the servers may give the row's volume away, or have done so: nothing may be mounted for it
// before they answer.
func (s *Service) leaseOver(r *row) error {
	if r.Lease <= 0 || s.conf.Silence == nil || s.conf.Silence() < r.leaseTerm().Stop() {
		return nil
	}
	return fault.New(fault.Unavailable, "its lease of %s is over: no server answers this node", r.Lease)
}

// cutOff takes a volume from the node, and what is not written back with it: in the kernel, and in processes that
// served it.
func (s *Service) cutOff(r *row) {
	own, paths := s.ownPaths(r), []string{r.Target.Host}
	if r.Stages {
		paths = append(paths, r.Staging.Host)
	}
	ctx, l := context.Background(), r.leaseTerm()
	limit := max((l.Term-l.Last())/2, time.Millisecond)
	for _, p := range paths {
		for range stackedMax {
			table, err := s.host.Table()
			if err != nil {
				s.log.Error("cut off a volume whose lease ends", "volume_id", r.VolumeID, "error", err)
				return
			}
			e := table.AtExactly(p)
			if e == nil {
				break
			}
			whole := ownsAll(table, e, own)
			s.log.Warn("a volume is mounted at the end of its lease: cut it off", "volume_id", r.VolumeID, "alloc_id", r.AllocID, "path", p, "shut_down", whole)
			if whole {
				// A file system that hangs cannot be opened, which its shutdown needs.
				if err := s.efforts.begin("shut down "+p, func() error { return s.host.ShutDown(p) }).wait(ctx, limit); err != nil {
					s.log.Info("the file system cannot be shut down", "path", p, "type", e.FSType, "error", err)
				}
				_ = s.efforts.begin("abort "+p, func() error { return s.host.Abort(p) }).wait(ctx, limit)
			}
			if err := s.host.Detach(p); err != nil {
				s.log.Error("cut off a volume whose lease ends", "volume_id", r.VolumeID, "error", err)
				break
			}
		}
	}
	helpers := r.Helpers
	if st := s.journal.stageOf(r.PluginID, r.ExternalID); st != nil {
		helpers = slices.Concat(helpers, st.Helpers)
	}
	s.plugins.KillHelpers(helpers)
}

// ownPaths are the paths of the row's volume, for all its users.
func (s *Service) ownPaths(r *row) []string {
	own := []string{r.Target.Host}
	for _, o := range s.journal.users(r) {
		own = append(own, o.Target.Host)
	}
	if st := s.journal.stageOf(r.PluginID, r.ExternalID); st != nil {
		own = append(own, st.Path.Host)
	}
	if r.Stages {
		own = append(own, r.Staging.Host)
	}
	return own
}

// ownsAll reports whether the file system is mounted at these paths only, and one of the mounts shows all of it:
// others would lose it too.
func ownsAll(table mounts.List, of *mounts.Entry, paths []string) (yes bool) {
	for _, e := range table {
		if e.Dev != of.Dev {
			continue
		}
		if !slices.Contains(paths, e.Point) {
			return false
		}
		yes = yes || e.Root == "/"
	}
	return yes
}
