package volumes

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/mounthealth"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// What is mounted at our paths and explained by no record and no allocation is nobody's, when the servers have said which
// allocations there are, no task runs that nobody knows, and no process has it. Then the node unmounts it. What a process
// has is told, and stays.

// strayPrefix begins the keys of such mounts in the queue.
const strayPrefix = "stray/"

const (
	// lookPause is the least time between two looks at late mounts, strayPause between two at mounts of nobody.
	lookPause  = 200 * time.Millisecond
	strayPause = 30 * time.Second
)

// Settled says that the node has ended all tasks that nobody knows.
func (s *Service) Settled() {
	s.strays.mu.Lock()
	s.strays.settled = true
	s.strays.mu.Unlock()
	s.planStrays()
	if s.conf.JournalComplete != nil && !s.journal.spare.unwritten {
		if err := s.conf.JournalComplete(); err != nil {
			s.log.Warn("note that the volume journal is complete", "error", err)
		}
	}
}

// planStrays plans to take away what is mounted for nobody.
func (s *Service) planStrays() {
	if s.strays.ready() {
		s.planFound()
	}
	all, err := s.forNobody()
	if err != nil {
		s.log.Error("look for mounts that nobody has", "error", err)
	}
	for _, e := range all {
		s.retries.Add(strayPrefix + e.Point)
	}
}

// forNobody lists what is at targets of no allocation, and at staging paths of no volume. A staging is used when a target
// shows its files, and may be when a target of its plugin has no record. While there are records of allocations that are not
// known, their mounts may be any of these: the
// servers were told of the records, and end them.
func (s *Service) forNobody() (out []*mounts.Entry, err error) {
	if !s.strays.ready() || slices.ContainsFunc(s.lostRows("", nil), func(l *lost) bool { return l.volumeID == "" }) {
		return nil, nil
	}
	if out, err = s.nameless(); err != nil {
		return nil, err
	}
	below, err := s.below()
	if err != nil {
		return nil, err
	}
	orphans := s.orphansIn(below)
	staged := map[string]bool{}
	for _, r := range s.journal.rows() {
		staged[r.Staging.Host] = r.touched() || staged[r.Staging.Host]
	}
	for _, e := range orphans {
		shows := func(t *mounts.Entry) bool { return isTarget(t) && t.Same(e) }
		may := func(t *mounts.Entry) bool { return isTarget(t) && pluginAt(t.Point) == pluginAt(e.Point) }
		if isStaging(e) && !staged[e.Point] && !slices.ContainsFunc(below, shows) && !slices.ContainsFunc(orphans, may) {
			out = append(out, e)
		}
	}
	return out, nil
}

// dropStray takes a mount away that nobody has.
func (s *Service) dropStray(ctx context.Context, path string) error {
	all, err := s.forNobody()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(e *mounts.Entry) bool { return e.Point == path })
	if i < 0 {
		return nil
	}
	e := all[i]
	if isNode(e) {
		s.tellStray(path, fault.New(fault.Conflict, "a device node is not taken away, for nothing tells who has it open"))
		return nil
	}
	pid, err := s.host.Elsewhere(e)
	if err == nil && pid != 0 {
		err = fault.New(fault.Conflict, "process %d has it in another mount namespace", pid)
	}
	if err == nil { // to abort it could lose what a process of this namespace has written
		if h, why := s.health.Prober().Check(ctx, e); h != mounthealth.Healthy && h != mounthealth.Failed {
			err = fault.New(fault.Unavailable, "it does not answer, and may be in use: %s", why)
		}
	}
	if err == nil {
		err = s.detachStray(ctx, e, s.forNobody, false)
	}
	if err != nil && ctx.Err() != nil {
		return err
	}
	if s.tellStray(path, err); err != nil {
		return err
	}
	if key := stagePrefix + filepath.Base(path); isStaging(e) && s.journal.isDamaged(key) {
		s.forget(key)
	}
	s.planStages()
	s.planStrays()
	return nil
}

// tellStray tells the operator of a mount that no allocation explains, once for each reason why it stays.
func (s *Service) tellStray(path string, why error) {
	text := ""
	if why != nil {
		text = why.Error()
	}
	s.strays.mu.Lock()
	before, told := s.strays.shown[path]
	s.strays.shown[path] = text
	if why == nil {
		delete(s.strays.shown, path)
	}
	s.strays.mu.Unlock()
	if told && before == text {
		return
	}
	d := map[string]string{"path": path, "plugin_id": pluginAt(path), "success": "true"}
	if why != nil {
		d["success"], d["error"] = "false", text
		s.log.Warn("a mount that no allocation explains stays", "path", path, "error", why)
	}
	s.conf.NodeEvent(&api.NodeEvent{Subsystem: "Storage", Message: "Unmount what no allocation explains", Details: d, Timestamp: time.Now()})
}

// watchMounts looks after each change of the mount table for mounts that came late, and from time to time for those of
// nobody.
func (s *Service) watchMounts(ctx context.Context) {
	changed := make(chan struct{}, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := s.host.Watch(ctx, func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
		if err != nil && ctx.Err() == nil {
			s.log.Warn("mounts that come late are found a minute later", "error", err)
		}
	}()
	defer func() { <-ended }()
	strays := time.NewTimer(time.Hour)
	strays.Stop()
	defer strays.Stop()
	planned := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-strays.C:
			planned = false
			s.planStrays()
			continue
		case <-changed:
		}
		for _, key := range s.late.keys() {
			s.retries.Hasten(key)
		}
		if !planned {
			planned = true
			strays.Reset(strayPause)
		}
		pause := time.NewTimer(lookPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
	}
}
