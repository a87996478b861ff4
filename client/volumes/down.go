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

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/csiplugins"
)

// Bounds of one try to take a volume down; Run tries again.
const (
	downPluginWait = 5 * time.Second
	tellWait       = 10 * time.Second
	// lateWait is how long after the start of the agent a plugin may be at work on a call of the process before:
	// nobody tells when that has ended.
	lateWait = 2 * time.Second
)

// EventUnmounted is the type of events of tasks whose volumes the node unmounted in the plugin's stead.
const EventUnmounted = "Volume Unmounted By Node"

// Down unpublishes what the allocation has, unstages what nobody else uses, and tells the servers. What
// fails stays in the journal and is tried again by [Service.Run]; the error tells of the first try.
// Down of an allocation without volumes does nothing. Plugins of the allocation are forgotten.
func (s *Service) Down(ctx context.Context, allocID string) error {
	s.live.end(allocID)
	s.plugins.Drop(allocID)
	rows := s.journal.ofAlloc(allocID)
	var all sync.WaitGroup
	errs := make([]error, len(rows), len(rows)+1)
	for i, r := range rows {
		all.Go(func() {
			s.begin(ctx, "down "+r.key())
			if err := s.release(ctx, "down ", r.key()); err != nil {
				errs[i] = fmt.Errorf("volume %q: %w", nameOf(r.VolumeID, r.Use), err)
				s.retries.Later(r.key())
			}
		})
	}
	all.Wait()
	err := errors.Join(append(errs, s.unreleased(allocID))...)
	if err == nil {
		s.live.forget(allocID)
	}
	return err
}

// retryRow is a try of Run. A key is that of a row, or of a staging that no row uses.
func (s *Service) retryRow(ctx context.Context, key string) error {
	if strings.HasPrefix(key, stagePrefix) {
		return s.dropStage(ctx, key)
	}
	if path, is := strings.CutPrefix(key, unrecordedPrefix); is {
		return s.unmountUnneeded(ctx, path)
	}
	r := s.journal.row(key)
	if r == nil {
		return s.journal.settle()
	}
	if _, is := s.live.get(r.AllocID); is && r.State == rowClaiming { // it was planned for one of before
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
	r := s.journal.row(key)
	if r == nil {
		return nil
	}
	if r.State != rowReleased {
		begin := time.Now()
		told := s.tellSlow(ctx, r)
		err := s.unmount(ctx, by, r, false)
		told()
		if r.touched() {
			s.tellMount("Unmount volume", r.VolumeID, r.AllocID, err)
		}
		if err != nil {
			s.tellFailure(ctx, key, err)
			return err
		}
		if r.touched() {
			s.log.Info("unmounted volume", "volume_id", nameOf(r.VolumeID, r.Use), "alloc_id", r.AllocID, "took", time.Since(begin))
		}
	}
	return s.tellReleased(ctx, key)
}

// unmount takes a row from whatever state to released. With force the node does what the plugin cannot.
func (s *Service) unmount(ctx context.Context, by string, r *row, force bool) error {
	if !r.touched() {
		if err := s.unreleased(r.AllocID); err != nil {
			return err
		}
		next := *r
		next.State = rowReleased
		s.journal.note(next)
		return nil
	}
	if err := s.leave(ctx, r.key()); err != nil {
		return err
	}
	// The plugin is waited for outside of the volume's turn.
	p, err := s.plugins.Wait(ctx, api.CSIPluginTypeNode, r.PluginID, downPluginWait)
	gone := err != nil && r.BootID != s.bootID // mounts and sessions end with the boot
	if err != nil && !force && !gone {
		return err
	}
	if err := s.settle(ctx, r.key(), r.volume()); err != nil {
		return err
	}
	begin := time.Now()
	s.writeBack(ctx, r)
	release, err := s.turn(ctx, by+r.key(), r.PluginID, r.volume())
	if err != nil {
		return err
	}
	defer release()
	if r = s.journal.row(r.key()); r == nil || r.State == rowReleased {
		return nil
	}
	u := &undoing{p: p, own: force || gone || s.gaveUp(r.failing), force: force, again: r.Failures+1 < unstageTries}
	err = s.undo(ctx, u, r)
	s.tellOwn(r, u)
	if err != nil {
		s.countFailure(ctx, p, r, err)
		return err
	}
	next := *r
	next.State, next.Took = rowReleased, time.Since(begin)
	s.journal.note(next)
	return nil
}

// unsettle notes what calls an agent process before this one may have left behind.
func (s *Service) unsettle() {
	s.born, s.unsettled, s.undone = s.host.Uptime(), map[string]bool{}, map[string]bool{}
	for _, r := range s.journal.rows() {
		s.unsettled[r.key()] = r.BootID == s.bootID && (r.State == rowMounting || r.State == rowLeaving)
		if r.BootID == s.bootID && r.State == rowLeaving {
			s.undone[r.volume()] = true
		}
	}
	for _, st := range s.journal.allStages() {
		if st.BootID == s.bootID && len(s.journal.users(&row{PluginID: st.PluginID, ExternalID: st.ExternalID})) == 0 {
			s.undone[csiplugins.VolumeKey(st.PluginID, st.ExternalID)] = true
		}
	}
}

// doubtSessions takes back what the records say of sessions of which nobody has anything mounted: volumes are taken down
// without a disk too, so that they may have been closed since.
func (s *Service) doubtSessions() {
	for _, st := range s.journal.allStages() {
		if st.Seen != nil || !st.Done || st.BootID != s.bootID {
			continue
		}
		open := slices.ContainsFunc(s.journal.users(&row{PluginID: st.PluginID, ExternalID: st.ExternalID}), func(r *row) bool {
			on, err := s.occupied(r.Target.Host, r.device())
			return err == nil && on
		})
		if !open {
			next := *st
			next.Done = false
			s.journal.noteStage(next)
		}
	}
}

// settle waits for calls that an agent process before this one may have left behind: those for the row, and those that take
// down something of its volume.
func (s *Service) settle(ctx context.Context, key, volume string) error {
	rest := s.born + lateWait - s.host.Uptime()
	if !s.unsettled[key] && !s.undone[volume] || rest <= 0 {
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

// gaveUp reports whether the plugin has failed to take something down so often, and for so long, that the node
// does it itself.
func (s *Service) gaveUp(f failing) bool {
	return f.Failures >= undoTries && time.Since(f.FailingSince) >= s.conf.UndoPatience
}

// countFailure notes that the plugin could not take the row down.
func (s *Service) countFailure(ctx context.Context, p *csiplugins.Plugin, r *row, err error) {
	if ctx.Err() != nil || p == nil {
		return
	}
	if errors.Is(err, fault.Unavailable) {
		p.Recheck()
	}
	next := *r
	next.failing = r.failing.once()
	s.journal.note(next)
}

// tellOwn records what the node did in the plugin's stead.
func (s *Service) tellOwn(r *row, u *undoing) {
	for _, n := range u.notes {
		s.log.Warn("unmounted in the plugin's stead", "volume_id", nameOf(r.VolumeID, r.Use), "alloc_id", r.AllocID, "what", n)
		s.tellMount("Unmounted in the plugin's stead", r.VolumeID, r.AllocID, fault.New(fault.Unavailable, "%s", n))
		s.conf.Tasks.Tell(r.AllocID, r.VolumeID, EventUnmounted, fmt.Sprintf("volume %s: %s", r.VolumeID, n))
	}
}

// leave marks the row, so that it is taken down whatever happens, and nothing is mounted for it any more.
func (s *Service) leave(ctx context.Context, key string) error {
	r := s.journal.row(key)
	if r == nil || r.State == rowLeaving || r.State == rowReleased {
		return nil
	}
	unlock, err := s.plugins.Lock(ctx, r.volume())
	if err != nil {
		return err
	}
	defer unlock()
	if r = s.journal.row(key); r == nil || r.State == rowLeaving || r.State == rowReleased {
		return nil
	}
	next := *r
	next.State = rowLeaving
	s.journal.note(next)
	return nil
}

// dropStage unstages a volume that no row uses: the row was lost.
func (s *Service) dropStage(ctx context.Context, key string) error {
	st := s.journal.stage(key)
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
	nobody := &row{AllocID: st.AllocID, VolumeID: st.ExternalID, PluginID: st.PluginID, ExternalID: st.ExternalID}
	if st = s.journal.stage(key); st == nil {
		return nil
	}
	if used, err := s.used(nobody, st); err != nil || used {
		return err
	}
	s.log.Warn("unstage a volume that nobody uses", "plugin_id", st.PluginID, "path", st.Path.Host)
	u := &undoing{p: p, own: p == nil || s.gaveUp(st.failing)}
	if err = s.takeStaging(ctx, u, st); err != nil && ctx.Err() == nil {
		next := *cmp.Or(s.journal.stage(key), st) // its session is noted as one that may be closed
		next.failing = st.failing.once()
		if err := s.journal.putStage(ctx, next); err != nil {
			s.log.Warn("count the failures of an unstage", "path", st.Path.Host, "error", err)
		}
	}
	s.tellOwn(nobody, u)
	return err
}

// planStages schedules the unstaging of volumes that no row uses.
func (s *Service) planStages() {
	for _, st := range s.journal.allStages() {
		if len(s.journal.users(&row{PluginID: st.PluginID, ExternalID: st.ExternalID})) == 0 {
			s.retries.Add(st.key())
		}
	}
}

// tellReleased reports that nothing is left on the node, and ends the row.
func (s *Service) tellReleased(ctx context.Context, key string) error {
	r := s.journal.row(key)
	if r == nil {
		return nil
	}
	if err := s.report(ctx, r, ""); err != nil && !errors.Is(err, fault.NotFound) {
		return fmt.Errorf("report the release: %w", err)
	}
	s.forget(key)
	return nil
}

// forget removes a record; what cannot be removed from disk is tried again.
func (s *Service) forget(key string) {
	s.notes.drop(key, s.notes.get(key))
	s.journal.remove(key)
	if id, _, _ := strings.Cut(strings.TrimPrefix(key, rowPrefix), "/"); len(s.journal.ofAlloc(id)) == 0 {
		s.live.leave(id)
	}
	if s.journal.owes() {
		s.retries.Later(owedKey)
	}
}

// owedKey stands in the queue for the records that must be removed from disk still.
const owedKey = "owed"

// tellFailure lets the servers show why the claim stays. It is said once for each reason, and best effort.
func (s *Service) tellFailure(ctx context.Context, key string, failure error) {
	r := s.journal.row(key)
	if r == nil || r.Told == failure.Error() || ctx.Err() != nil {
		return
	}
	if err := s.report(ctx, r, failure.Error()); err != nil {
		s.log.Debug("report a failed unmount", "volume_id", r.VolumeID, "error", err)
		return
	}
	if now := s.journal.row(key); now != nil {
		next := *now
		next.Told = failure.Error()
		s.journal.note(next)
	}
}

// Explain tells the servers why the volumes of an allocation cannot be taken down yet, best effort.
func (s *Service) Explain(ctx context.Context, allocID, reason string) {
	for _, r := range s.journal.ofAlloc(allocID) {
		s.tellFailure(ctx, r.key(), fault.New(fault.Unavailable, "%s", reason))
	}
}

// tellSlow tells the servers when an unmount takes longer than [slowAfter]; stop ends that.
func (s *Service) tellSlow(ctx context.Context, r *row) (stop func()) {
	if !r.touched() || r.Told != "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	timer := time.AfterFunc(slowAfter, func() {
		defer close(done)
		if err := s.report(ctx, r, "unmount: "+s.silent(r.PluginID)); err != nil && ctx.Err() == nil {
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

// diskSilent says why nothing is heard of the disk that records are written to.
const diskSilent = "the disk of the node has not responded yet"

// silent says why nothing is heard of a plugin, or of the disk that records are written to before it is called.
func (s *Service) silent(pluginID string) string {
	if s.journal.hangs() >= writeWaitHung {
		return diskSilent
	}
	if _, err := s.plugins.Find(api.CSIPluginTypeNode, pluginID); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("plugin %q has not responded yet", pluginID)
}

func (s *Service) report(ctx context.Context, r *row, failure string) error {
	ctx, cancel := context.WithTimeout(ctx, tellWait)
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
