package volumes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/volumes/journal"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/csiplugins"
)

// Bounds of one try to take a volume down; Run tries again.
const (
	downPluginWait = 5 * time.Second
	reportWait     = 10 * time.Second
	// earlierCallWait is how long after the start of the agent a plugin may still be serving a call of the previous process.
	earlierCallWait = 2 * time.Second
)

// EventUnmounted is the type of events of tasks whose volumes the node unmounted in the plugin's stead.
const EventUnmounted = "Volume Unmounted By Node"

// Down unpublishes the volumes of the allocation, unstages those without another user, and reports the releases. A failed
// row stays in the journal and is repeated by [Service.Run]; the error is that of the first try. Plugins of the allocation
// are removed.
func (s *Service) Down(ctx context.Context, allocID string) error {
	s.allocs.end(allocID)
	s.plugins.Drop(allocID)
	rows := s.journal.OfAlloc(allocID)
	var all sync.WaitGroup
	errs := make([]error, len(rows), len(rows)+1)
	for i, r := range rows {
		all.Go(func() {
			s.begin(ctx, "down "+r.Key())
			if err := s.release(ctx, "down ", r.Key()); err != nil {
				errs[i] = fmt.Errorf("volume %q: %w", nameOf(r.VolumeID, r.Use), err)
				s.retries.Later(r.Key())
			}
		})
	}
	all.Wait()
	err := errors.Join(append(errs, s.unreleased(allocID))...)
	if err == nil {
		s.allocs.forget(allocID)
	}
	return err
}

// retryRow is a try of Run. A key is that of a row, or of a staging that no row uses.
func (s *Service) retryRow(ctx context.Context, key string) error {
	if strings.HasPrefix(key, journal.StagePrefix) {
		return s.unstageUnused(ctx, key)
	}
	if path, is := strings.CutPrefix(key, unrecordedPrefix); is {
		return s.unmountUnneeded(ctx, path)
	}
	r := s.journal.Row(key)
	if r == nil {
		return s.journal.RetryRemovals()
	}
	if _, is := s.allocs.get(r.AllocID); is && r.State == journal.Claiming { // the retry was planned for a previous row
		return nil
	}
	err := s.release(ctx, "undo ", key)
	if err != nil && ctx.Err() == nil {
		s.log.Warn("take volume down", "volume_id", nameOf(r.VolumeID, r.Use), "alloc_id", r.AllocID, "error", err)
	}
	return err
}

// release takes one row all the way to its end; by is what it is done for.
func (s *Service) release(ctx context.Context, by, key string) error {
	r := s.journal.Row(key)
	if r == nil {
		return nil
	}
	if r.State != journal.Released {
		begin := time.Now()
		told := s.reportSlow(ctx, r)
		err := s.unmount(ctx, by, r, false)
		told()
		if r.Touched() {
			s.reportMount("Unmount volume", r.VolumeID, r.AllocID, err)
		}
		if err != nil {
			s.reportFailure(ctx, key, err)
			return err
		}
		if r.Touched() {
			s.log.Info("unmounted volume", "volume_id", nameOf(r.VolumeID, r.Use), "alloc_id", r.AllocID, "took", time.Since(begin))
		}
	}
	return s.reportReleased(ctx, key)
}

// unmount takes a row from whatever state to released. With force the node does what the plugin cannot.
func (s *Service) unmount(ctx context.Context, by string, r *journal.Row, force bool) error {
	if !r.Touched() {
		if err := s.unreleased(r.AllocID); err != nil {
			return err
		}
		next := *r
		next.State = journal.Released
		s.journal.Note(next)
		return nil
	}
	if err := s.markLeaving(ctx, r.Key()); err != nil {
		return err
	}
	// The plugin is waited for outside of the volume's turn.
	p, err := s.plugins.Wait(ctx, api.CSIPluginTypeNode, r.PluginID, downPluginWait)
	gone := err != nil && r.BootID != s.bootID // mounts and sessions end with the boot
	if err != nil && !force && !gone {
		return err
	}
	if err := s.awaitEarlierCalls(ctx, r.Key(), r.Volume()); err != nil {
		return err
	}
	begin := time.Now()
	s.writeBack(ctx, r)
	release, err := s.turn(ctx, by+r.Key(), r.PluginID, r.Volume())
	if err != nil {
		return err
	}
	defer release()
	if r = s.journal.Row(r.Key()); r == nil || r.State == journal.Released {
		return nil
	}
	u := &undoRun{p: p, own: force || gone || s.pluginFailed(r.Failing), force: force, again: r.Failures+1 < unstageTries}
	err = s.undo(ctx, u, r)
	s.reportOwnUnmounts(r, u)
	if err != nil {
		s.countFailure(ctx, p, r, err)
		return err
	}
	next := *r
	next.State, next.Took = journal.Released, time.Since(begin)
	s.journal.Note(next)
	return nil
}

// markSessionsUnknown records which rows and volumes the previous agent process may have left calls for.
func (s *Service) markSessionsUnknown() {
	s.started, s.unknownRows, s.unknownVolumes = s.host.Uptime(), map[string]bool{}, map[string]bool{}
	for _, r := range s.journal.Rows() {
		s.unknownRows[r.Key()] = r.BootID == s.bootID && (r.State == journal.Mounting || r.State == journal.Leaving)
		if r.BootID == s.bootID && r.State == journal.Leaving {
			s.unknownVolumes[r.Volume()] = true
		}
	}
	for _, st := range s.journal.AllStages() {
		if st.BootID == s.bootID && len(s.journal.Users(&journal.Row{PluginID: st.PluginID, ExternalID: st.ExternalID})) == 0 {
			s.unknownVolumes[csiplugins.VolumeKey(st.PluginID, st.ExternalID)] = true
		}
	}
}

// markSessionsUncertain marks sessions without a mounted user as not staged: they may have been closed while the disk took
// no records.
func (s *Service) markSessionsUncertain() {
	for _, st := range s.journal.AllStages() {
		if st.Seen != nil || !st.Done || st.BootID != s.bootID {
			continue
		}
		open := slices.ContainsFunc(s.journal.Users(&journal.Row{PluginID: st.PluginID, ExternalID: st.ExternalID}), func(r *journal.Row) bool {
			on, err := s.occupied(r.Target.Host, r.Device())
			return err == nil && on
		})
		if !open {
			next := *st
			next.Done = false
			s.journal.NoteStage(next)
		}
	}
}

// awaitEarlierCalls waits for calls of the previous agent process for the row, and for those that unmount its volume.
func (s *Service) awaitEarlierCalls(ctx context.Context, key, volume string) error {
	rest := s.started + earlierCallWait - s.host.Uptime()
	if !s.unknownRows[key] && !s.unknownVolumes[volume] || rest <= 0 {
		return nil
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for a call of an earlier agent process: %w", ctx.Err())
	}
}

// pluginFailed reports whether the plugin has failed often and long enough that the node unmounts without it.
func (s *Service) pluginFailed(f journal.Failing) bool {
	return f.Failures >= undoTries && time.Since(f.FailingSince) >= s.conf.UndoPatience
}

// countFailure notes that the plugin could not take the row down.
func (s *Service) countFailure(ctx context.Context, p *csiplugins.Plugin, r *journal.Row, err error) {
	if ctx.Err() != nil || p == nil {
		return
	}
	if errors.Is(err, fault.Unavailable) {
		p.Recheck()
	}
	next := *r
	next.Failing = r.Failing.Once()
	s.journal.Note(next)
}

// reportOwnUnmounts records what the node unmounted without the plugin.
func (s *Service) reportOwnUnmounts(r *journal.Row, u *undoRun) {
	for _, n := range u.notes {
		s.log.Warn("unmounted in the plugin's stead", "volume_id", nameOf(r.VolumeID, r.Use), "alloc_id", r.AllocID, "what", n)
		s.reportMount("Unmounted in the plugin's stead", r.VolumeID, r.AllocID, fault.New(fault.Unavailable, "%s", n))
		s.conf.Tasks.Tell(r.AllocID, r.VolumeID, EventUnmounted, fmt.Sprintf("volume %s: %s", r.VolumeID, n))
	}
}

// markLeaving records that the row is unmounted: from then on nothing is mounted for it.
func (s *Service) markLeaving(ctx context.Context, key string) error {
	r := s.journal.Row(key)
	if r == nil || r.State == journal.Leaving || r.State == journal.Released {
		return nil
	}
	unlock, err := s.plugins.Lock(ctx, r.Volume())
	if err != nil {
		return err
	}
	defer unlock()
	if r = s.journal.Row(key); r == nil || r.State == journal.Leaving || r.State == journal.Released {
		return nil
	}
	next := *r
	next.State = journal.Leaving
	s.journal.Note(next)
	return nil
}

// unstageUnused unstages a volume that no row uses.
func (s *Service) unstageUnused(ctx context.Context, key string) error {
	st := s.journal.Stage(key)
	if st == nil {
		return nil
	}
	p, err := s.plugins.Wait(ctx, api.CSIPluginTypeNode, st.PluginID, downPluginWait)
	if err != nil && st.BootID == s.bootID {
		return err
	}
	volume := csiplugins.VolumeKey(st.PluginID, st.ExternalID)
	release, err := s.turn(ctx, "undo "+key, st.PluginID, volume)
	if err != nil {
		return err
	}
	defer release()
	nobody := &journal.Row{AllocID: st.AllocID, VolumeID: st.ExternalID, PluginID: st.PluginID, ExternalID: st.ExternalID}
	if st = s.journal.Stage(key); st == nil {
		return nil
	}
	if used, err := s.used(nobody, st); err != nil || used {
		return err
	}
	s.log.Warn("unstage an unused volume", "plugin_id", st.PluginID, "path", st.Path.Host)
	u := &undoRun{p: p, own: p == nil || s.pluginFailed(st.Failing)}
	if err = s.unstagePath(ctx, u, st); err != nil && ctx.Err() == nil {
		next := *cmp.Or(s.journal.Stage(key), st) // its session is noted as one that may be closed
		next.Failing = st.Failing.Once()
		if err := s.journal.PutStage(ctx, next); err != nil {
			s.log.Warn("count the failures of an unstage", "path", st.Path.Host, "error", err)
		}
	}
	s.reportOwnUnmounts(nobody, u)
	return err
}

// planStages schedules the unstaging of volumes that no row uses.
func (s *Service) planStages() {
	for _, st := range s.journal.AllStages() {
		if len(s.journal.Users(&journal.Row{PluginID: st.PluginID, ExternalID: st.ExternalID})) == 0 {
			s.retries.Add(st.Key())
		}
	}
}

// reportReleased reports that nothing is left on the node, and ends the row.
func (s *Service) reportReleased(ctx context.Context, key string) error {
	r := s.journal.Row(key)
	if r == nil {
		return nil
	}
	if err := s.report(ctx, r, ""); err != nil && !errors.Is(err, fault.NotFound) {
		return fmt.Errorf("report the release: %w", err)
	}
	s.forget(key)
	return nil
}

// forget removes a record. A removal that fails is repeated.
func (s *Service) forget(key string) {
	s.notes.drop(key, s.notes.get(key))
	s.journal.Remove(key)
	if id, _, _ := strings.Cut(strings.TrimPrefix(key, journal.RowPrefix), "/"); len(s.journal.OfAlloc(id)) == 0 {
		s.allocs.leave(id)
	}
	if s.journal.HasRemovals() {
		s.retries.Later(removalsKey)
	}
}

// removalsKey is the key of outstanding removals of records in the queue.
const removalsKey = "owed"

// reportFailure lets the servers show why the claim stays. Each reason is reported once, with best effort.
func (s *Service) reportFailure(ctx context.Context, key string, failure error) {
	r := s.journal.Row(key)
	if r == nil || r.Told == failure.Error() || ctx.Err() != nil {
		return
	}
	if err := s.report(ctx, r, failure.Error()); err != nil {
		s.log.Debug("report a failed unmount", "volume_id", r.VolumeID, "error", err)
		return
	}
	if now := s.journal.Row(key); now != nil {
		next := *now
		next.Told = failure.Error()
		s.journal.Note(next)
	}
}

// Explain reports to the servers why the volumes of an allocation cannot be unmounted yet, with best effort.
func (s *Service) Explain(ctx context.Context, allocID, reason string) {
	for _, r := range s.journal.OfAlloc(allocID) {
		s.reportFailure(ctx, r.Key(), fault.New(fault.Unavailable, "%s", reason))
	}
}

// reportSlow reports to the servers an unmount that takes longer than [slowAfter], until stop is called.
func (s *Service) reportSlow(ctx context.Context, r *journal.Row) (stop func()) {
	if !r.Touched() || r.Told != "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	timer := time.AfterFunc(slowAfter, func() {
		defer close(done)
		if err := s.report(ctx, r, "unmount: "+s.silenceReason(r.PluginID)); err != nil && ctx.Err() == nil {
			s.log.Debug("report a slow unmount", "volume_id", r.VolumeID, "error", err)
		}
	})
	return func() {
		cancel()
		if !timer.Stop() {
			<-done
		}
	}
}

// diskSilence is the reason for a wait for the disk.
const diskSilence = "the disk of the node has not responded yet"

// silenceReason names what has not responded: the disk, or the plugin.
func (s *Service) silenceReason(pluginID string) string {
	if s.journal.Hung() {
		return diskSilence
	}
	if _, err := s.plugins.Find(api.CSIPluginTypeNode, pluginID); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("plugin %q has not responded yet", pluginID)
}

func (s *Service) report(ctx context.Context, r *journal.Row, failure string) error {
	ctx, cancel := context.WithTimeout(ctx, reportWait)
	defer cancel()
	req := &api.VolumeUnpublishRequest{VolumeID: r.VolumeID, AllocID: r.AllocID, Use: r.Use, Error: failure}
	if failure == "" {
		req.WriteBack = r.Took
	}
	req.Namespace = r.Namespace
	return s.send(ctx, req)
}

// send makes a report in the node's name.
func (s *Service) send(ctx context.Context, req *api.VolumeUnpublishRequest) error {
	req.NodeID, req.NodeSecret = s.conf.NodeID(), s.conf.NodeSecret()
	_, err := wire.VolumeUnpublish.Call(ctx, s.conf.Servers, req)
	return err
}
