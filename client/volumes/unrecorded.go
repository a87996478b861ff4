package volumes

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/client/volumes/journal"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/client/mounthealth"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// A record may be missing or unreadable, and a driver may mount something after its call was abandoned. One rule covers
// all cases: a mount, or a device node at a target, that no record explains is in use until the mount table shows
// otherwise. Its allocation adopts it. A mount that no allocation needs is unmounted by the node after the servers have
// listed the allocations of the node and all tasks of other allocations have ended.

// unrecordedPrefix starts the keys of unrecorded mounts in the queue of retries.
const unrecordedPrefix = "unrecorded/"

// unrecorded is the state of mounts without a record.
type unrecorded struct {
	// found is set if the last read of the mount table found any.
	found atomic.Bool

	mu              sync.Mutex
	listed, settled bool
	reported        map[string]string // the last reported reason why a mount stays, by path
	presumed        api.LeaseTerm
}

// Listed receives the allocations that the servers first list on this node. Their mounts stay until they start here.
func (s *Service) Listed(all []*api.Allocation) {
	for _, a := range all {
		if a != nil && a.Group() != nil && !a.ClientTerminal() {
			s.allocs.list(a)
		}
	}
	s.unrecorded.mu.Lock()
	s.unrecorded.listed = true
	s.unrecorded.mu.Unlock()
	s.planUnmounts()
}

// Settled reports that no task of an unknown allocation runs on the node.
func (s *Service) Settled() {
	s.unrecorded.mu.Lock()
	s.unrecorded.settled = true
	s.unrecorded.mu.Unlock()
	s.planUnmounts()
}

// Presume sets the lease of unrecorded mounts: the shortest lease that an earlier agent process had.
func (s *Service) Presume(term api.LeaseTerm) { s.unrecorded.presumed = term }

// ready reports whether a mount without an allocation is known to be unused.
func (u *unrecorded) ready() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.listed && u.settled
}

// listUnrecorded lists the mounts and device nodes that no record explains, and all that are below the root.
func (s *Service) listUnrecorded() (out []*mounts.Entry, below mounts.List, err error) {
	if below, err = s.below(); err != nil {
		s.unrecorded.found.Store(true)
		return nil, nil, fmt.Errorf("look for mounts without a record: %w", err)
	}
	recorded := map[string]bool{}
	for _, r := range s.journal.Rows() {
		recorded[r.Target.Host] = true
	}
	for _, st := range s.journal.AllStages() {
		recorded[st.Path.Host] = true
	}
	for _, e := range below {
		if (isStaging(e.Point) || isTarget(e.Point)) && !recorded[e.Point] {
			out = append(out, e)
		}
	}
	s.unrecorded.found.Store(len(out) > 0)
	return out, below, nil
}

// unrecordedRows returns a row for each target without a record. The allocation is set if the node knows it.
func (s *Service) unrecordedRows() (out []*journal.Row) {
	if !s.unrecorded.found.Load() {
		return nil
	}
	all, below, err := s.listUnrecorded()
	if err != nil {
		s.log.Error("list volumes without a record", "error", err)
	}
	targets := s.allocs.targets()
	for _, at := range all {
		if !isTarget(at.Point) {
			continue
		}
		t := targets[filepath.Base(at.Point)]
		r := &journal.Row{
			State: journal.Mounted, AllocID: t.allocID, Namespace: t.namespace, VolumeID: t.volumeID, Use: t.use, PluginID: pluginAt(at.Point),
			Target: place{Host: at.Point, Plugin: at.Point}, Seen: at, BootID: s.bootID, ID: journal.RowPrefix + t.allocID + at.Point,
		}
		if isNode(at) {
			r.AttachmentMode, r.Seen = api.AttachmentBlock, nil
		} else if i := slices.IndexFunc(below, func(e *mounts.Entry) bool { return isStaging(e.Point) && e.Same(at) }); i >= 0 {
			r.Stages, r.Staging, r.Vol = true, place{Host: below[i].Point, Plugin: below[i].Point}, filepath.Base(below[i].Point)
		}
		out = append(out, r)
	}
	return out
}

// unrecordedLeases returns the rows of unrecorded targets under the shortest lease that is known: that of a row, or the
// presumed one. Without any lease nothing on the node was mounted under one.
func (s *Service) unrecordedLeases(rows []*journal.Row) []*journal.Row {
	out := s.unrecordedRows()
	term := s.unrecorded.presumed
	for _, r := range rows {
		if l := r.LeaseTerm(); term.Term <= 0 || l.Stop() < term.Stop() {
			term = l
		}
	}
	if term.Term <= 0 {
		return nil
	}
	for _, r := range out {
		r.Lease, r.WriteBack = term.Term, term.WriteBack
	}
	return out
}

// unreleased returns an error if a volume is mounted for the allocation without a record: the servers must not free its claim.
func (s *Service) unreleased(allocID string) error {
	var errs []error
	for _, r := range s.unrecordedRows() {
		if r.AllocID == allocID {
			errs = append(errs, fault.New(fault.Unavailable,
				"volume %q is mounted at %s and has no record on this node: the servers request the unmount, or run: nomad volume detach -force",
				r.VolumeID, r.Target.Host))
		}
	}
	return errors.Join(errs...)
}

// adoptUnrecorded creates the record of a mount that serves the use and has none. The caller holds the volume's turn.
func (s *Service) adoptUnrecorded(ctx context.Context, next journal.Row, at *mounts.Entry) (*journal.Row, error) {
	if !isNode(at) {
		next.Seen = at
	}
	next.Target = place{Host: at.Point, Plugin: at.Point}
	if staged := s.findMount(csiplugins.StagingDir, next.Volume()); next.Stages && staged != nil {
		next.Staging = place{Host: staged.Point, Plugin: staged.Point}
	}
	if err := s.recordStaging(ctx, &next); err != nil {
		return nil, err
	}
	if err := s.promise(&next); err != nil {
		return nil, err
	}
	s.log.Warn("a mount without a record is adopted", "volume_id", next.VolumeID, "alloc_id", next.AllocID, "path", at.Point)
	next.State = journal.Mounted
	return s.journal.Put(ctx, next)
}

// recordStaging creates the record of the row's staging if there is none.
func (s *Service) recordStaging(ctx context.Context, r *journal.Row) error {
	if !r.Stages || s.journal.StageOf(r.PluginID, r.ExternalID) != nil {
		return nil
	}
	seen, err := s.mountedAt(r.Staging.Host, false)
	if err != nil {
		return err
	}
	return s.journal.PutStage(ctx, journal.Stage{
		PluginID: r.PluginID, ExternalID: r.ExternalID, Path: r.Staging, Seen: seen, Done: seen != nil, BootID: s.bootID,
		AllocID: r.AllocID, AccessMode: r.AccessMode, Options: r.MountOptions,
	})
}

// unrecordedUser returns an error if a mount without a record may use the row's volume. A mount shows the files of its
// staging. If nothing is staged as a mount, each target of the plugin that shows no other staging may be a user.
func (s *Service) unrecordedUser(r *journal.Row, staged ...*mounts.Entry) error {
	all, below, err := s.listUnrecorded()
	if err != nil {
		return err
	}
	staged = slices.DeleteFunc(staged, func(st *mounts.Entry) bool { return st == nil })
	for _, e := range all {
		if e.Point == r.Target.Host {
			continue
		}
		uses := slices.ContainsFunc(staged, func(st *mounts.Entry) bool { return e.Point != st.Point && e.Same(st) })
		if !uses && (len(staged) == 0 || isNode(e)) && isTarget(e.Point) && pluginAt(e.Point) == r.PluginID {
			uses = !slices.ContainsFunc(below, func(o *mounts.Entry) bool { return isStaging(o.Point) && o.Same(e) })
		}
		if uses {
			return fault.New(fault.Unavailable, "%s is mounted without a record and may use the volume", e.Point)
		}
	}
	return nil
}

// recordDetach creates the record of a mount that has none and that the servers ask to unmount, so that its driver unmounts
// it. It returns nil if nothing is mounted. If the servers do not know the external id, the node unmounts without the driver.
func (s *Service) recordDetach(ctx context.Context, req *api.NodeVolumeDetachRequest) (*journal.Row, error) {
	at := s.findMount(csiplugins.TargetDir, targetName(req.Namespace, req.VolumeID, req.AllocID, req.Use))
	switch {
	case at == nil:
		return nil, nil
	case !req.Force && !s.unrecorded.ready():
		return nil, fault.New(fault.Unavailable, "%s is mounted without a record, and the node does not know yet which tasks run on it: try again later", at.Point)
	case req.ExternalID == "" || pluginAt(at.Point) != req.PluginID:
		return nil, s.unmountUnrecorded(ctx, at, req.Force)
	}
	p, err := s.plugins.Find(api.CSIPluginTypeNode, req.PluginID)
	if err != nil && !req.Force {
		return nil, err
	}
	r := journal.Row{
		State: journal.Leaving, AllocID: req.AllocID, Namespace: req.Namespace, VolumeID: req.VolumeID, Use: req.Use, BootID: s.bootID,
		PluginID: req.PluginID, ExternalID: req.ExternalID, Target: place{Host: at.Point, Plugin: at.Point},
	}
	if isNode(at) {
		r.AttachmentMode = api.AttachmentBlock
	}
	if err == nil && s.plugins.Stages(p) {
		r.Stages, r.Staging = true, stagingAt(p.Base, r.PluginID, r.ExternalID)
		if st := s.stagingOf(&r); st != nil {
			r.Staging = st.Path
		}
	}
	if err := s.recordStaging(ctx, &r); err != nil {
		return nil, err
	}
	return s.journal.Note(r), nil
}

// planUnmounts reads the mount table and schedules the unmount of what no allocation needs.
func (s *Service) planUnmounts() {
	all, err := s.unneeded()
	if err != nil {
		s.log.Error("look for mounts that no allocation needs", "error", err)
	}
	for _, e := range all {
		s.retries.Add(unrecordedPrefix + e.Point)
	}
}

// unneeded lists unrecorded targets of no known allocation, and unrecorded stagings that no row and no target uses.
func (s *Service) unneeded() (out []*mounts.Entry, err error) {
	all, below, err := s.listUnrecorded()
	if err != nil || len(all) == 0 || !s.unrecorded.ready() {
		return nil, err
	}
	targets, staged := s.allocs.targets(), map[string]bool{}
	for _, r := range s.journal.Rows() {
		staged[r.Staging.Host] = r.Touched() || staged[r.Staging.Host]
	}
	for _, e := range all {
		shows := func(t *mounts.Entry) bool { return isTarget(t.Point) && t.Same(e) }
		may := func(t *mounts.Entry) bool { return isTarget(t.Point) && pluginAt(t.Point) == pluginAt(e.Point) }
		_, needed := targets[filepath.Base(e.Point)]
		if isStaging(e.Point) {
			needed = staged[e.Point] || slices.ContainsFunc(below, shows) || slices.ContainsFunc(all, may)
		}
		if !needed {
			out = append(out, e)
		}
	}
	return out, nil
}

// unmountUnneeded unmounts what is mounted at a path and no allocation needs. A mount that may be in use stays.
func (s *Service) unmountUnneeded(ctx context.Context, path string) error {
	if isStaging(path) {
		release, err := s.turn(ctx, "unmount "+path, pluginAt(path), filepath.Base(path))
		if err != nil {
			return err
		}
		defer release()
	}
	all, err := s.unneeded()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(e *mounts.Entry) bool { return e.Point == path })
	if i < 0 {
		return nil
	}
	e := all[i]
	pid, err := s.host.Elsewhere(e)
	if err == nil && pid != 0 {
		err = fault.New(fault.Conflict, "process %d uses it in another mount namespace", pid)
	}
	if err == nil && !isNode(e) { // an abort could lose what a process of this namespace has written
		if h, why := s.health.Prober().Check(ctx, e); h != mounthealth.Healthy && h != mounthealth.Failed {
			err = fault.New(fault.Unavailable, "it does not respond and may be in use: %s", why)
		}
	}
	if err == nil {
		err = s.unmountUnrecorded(ctx, e, false)
	}
	if err != nil && ctx.Err() != nil {
		return err
	}
	s.reportUnrecorded(path, err)
	if err == nil {
		s.planStages()
		s.planUnmounts()
	}
	return err
}

// unmountUnrecorded unmounts an unrecorded mount, lazily only if it has failed or force is set. An allocation that starts
// meanwhile either is seen here, or waits for the end of the unmount in [Service.unmounting].
func (s *Service) unmountUnrecorded(ctx context.Context, e *mounts.Entry, force bool) error {
	if isNode(e) {
		return fault.New(fault.Conflict, "%s is a device node: device nodes are not removed, because their users cannot be determined", e.Point)
	}
	h, _ := s.health.Prober().Check(ctx, e)
	err := s.pending.begin(callKey("unmount", e), func() error {
		if t, known := s.allocs.targets()[filepath.Base(e.Point)]; known {
			if _, is := s.allocs.get(t.allocID); is {
				return fault.New(fault.Conflict, "allocation %s runs on this node again", t.allocID)
			}
		}
		err := s.eachFrom(e, s.host.Remove)
		if err != nil && (force || h == mounthealth.Failed) {
			err = s.eachFrom(e, s.host.Detach)
		}
		return err
	}).wait(ctx, umountWait)
	if err != nil {
		return err
	}
	s.log.Warn("the node unmounted a mount without a record", "path", e.Point)
	s.clean(e.Point)
	return nil
}

// reportUnrecorded records a node event when an unrecorded mount is unmounted, and once for each reason why it stays.
func (s *Service) reportUnrecorded(path string, why error) {
	d := map[string]string{"path": path, "plugin_id": pluginAt(path), "success": "true"}
	s.unrecorded.mu.Lock()
	before := s.unrecorded.reported[path]
	delete(s.unrecorded.reported, path)
	if why != nil {
		d["success"], d["error"] = "false", why.Error()
		s.unrecorded.reported[path] = why.Error()
	}
	s.unrecorded.mu.Unlock()
	if why != nil && before == why.Error() {
		return
	}
	if why != nil {
		s.log.Warn("a mount without a record stays", "path", path, "error", why)
	}
	s.conf.NodeEvent(&api.NodeEvent{Subsystem: "Storage", Message: "Unmount volume without a record", Details: d, Timestamp: time.Now()})
}
