package volumes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// Bounds of one try to take a volume down; Run tries again.
const (
	downPluginWait = 5 * time.Second
	tellWait       = 10 * time.Second
)

// Down unpublishes what the allocation has, unstages what nobody else uses, and tells the servers. What
// fails stays in the journal and is tried again by [Service.Run]; the error tells of the first try.
// Down of an allocation without volumes does nothing. Plugins of the allocation are forgotten.
func (s *Service) Down(ctx context.Context, allocID string) error {
	s.setLive(allocID, false)
	s.ward.forget(allocID)
	s.plugins.dropAlloc(allocID)
	rows := s.journal.ofAlloc(allocID)
	var all sync.WaitGroup
	errs := make([]error, len(rows))
	for i, r := range rows {
		all.Go(func() {
			if err := s.release(ctx, r.key()); err != nil {
				errs[i] = fmt.Errorf("volume %q: %w", r.VolumeID, err)
				s.retries.later(r.key())
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// retryRow is a try of Run.
func (s *Service) retryRow(ctx context.Context, key string) error {
	r := s.journal.row(key)
	if r == nil {
		return nil
	}
	err := s.release(ctx, key)
	if err != nil && ctx.Err() == nil {
		s.log.Warn("take volume down", "volume_id", r.VolumeID, "alloc_id", r.AllocID, "error", err)
	}
	return err
}

// release takes one row all the way to its end.
func (s *Service) release(ctx context.Context, key string) error {
	r := s.journal.row(key)
	if r == nil {
		return nil
	}
	if r.State != rowReleased {
		begin := time.Now()
		told := s.tellSlow(ctx, r)
		err := s.unmount(ctx, r)
		told()
		if r.touched() {
			s.tellMount("Unmount volume", r.VolumeID, r.AllocID, err)
		}
		if err != nil {
			s.tellFailure(ctx, key, err)
			return err
		}
		if r.touched() {
			s.log.Info("unmounted volume", "volume_id", r.VolumeID, "alloc_id", r.AllocID, "took", time.Since(begin))
		}
	}
	return s.tellReleased(ctx, key)
}

// unmount takes a row from whatever state to released.
func (s *Service) unmount(ctx context.Context, r *row) error {
	if !r.touched() {
		next := *r
		next.State = rowReleased
		_, err := s.journal.put(next)
		return err
	}
	if err := s.leave(ctx, r.key()); err != nil {
		return err
	}
	// The plugin is waited for outside of the volume's turn.
	p, err := s.plugins.wait(ctx, api.CSIPluginTypeNode, r.PluginID, downPluginWait)
	if err != nil {
		return err
	}
	release, err := s.turn(ctx, r.PluginID, r.volume())
	if err != nil {
		return err
	}
	defer release()
	if r = s.journal.row(r.key()); r == nil || r.State == rowReleased {
		return nil
	}
	if err := s.undo(ctx, p, r); err != nil {
		if errors.Is(err, fault.Unavailable) {
			p.hurry()
		}
		return err
	}
	next := *r
	next.State = rowReleased
	_, err = s.journal.put(next)
	return err
}

// leave marks the row, so that it is taken down whatever happens, and nothing is mounted for it any more.
func (s *Service) leave(ctx context.Context, key string) error {
	r := s.journal.row(key)
	if r == nil || r.State == rowLeaving || r.State == rowReleased {
		return nil
	}
	release, err := s.locks.take(ctx, r.volume())
	if err != nil {
		return err
	}
	defer release()
	if r = s.journal.row(key); r == nil || r.State == rowLeaving || r.State == rowReleased {
		return nil
	}
	next := *r
	next.State = rowLeaving
	_, err = s.journal.put(next)
	return err
}

// undo unpublishes, and unstages when it was the last. The caller holds the volume's turn.
func (s *Service) undo(ctx context.Context, p *plugin, r *row) error {
	if err := p.client.NodeUnpublish(ctx, r.ExternalID, p.see(r.Target)); err != nil {
		return fmt.Errorf("unpublish: %w", err)
	}
	if on, err := mounts.IsPoint(r.Target.Host); err != nil || on {
		return errors.Join(err, fault.New(fault.Unavailable, "the plugin says that it is unpublished, but %s is still mounted", r.Target.Host))
	}
	if err := removeLeaf(r.Target.Host); err != nil {
		return err
	}
	st := s.journal.stageOf(r.PluginID, r.ExternalID)
	if st == nil {
		return nil
	}
	if used, err := s.used(r, st); err != nil || used {
		return err
	}
	if err := s.unstage(ctx, p, r.ExternalID, st.Path); err != nil {
		return fmt.Errorf("unstage: %w", err)
	}
	if err := removeLeaf(st.Path.Host); err != nil {
		s.log.Warn("remove staging directory", "path", st.Path.Host, "error", err)
	}
	return s.journal.removeStage(st)
}

// used reports whether somebody else needs the staging: a row of the journal, or a mount of the same files
// below the plugin's base that the journal does not know.
func (s *Service) used(r *row, st *stage) (bool, error) {
	if len(s.journal.users(r)) > 0 {
		return true, nil
	}
	if st.Seen == nil {
		return false, nil
	}
	unknown, err := s.orphans()
	if err != nil {
		return false, err
	}
	for _, e := range unknown {
		if e.Same(st.Seen) {
			return false, fault.New(fault.Unavailable, "it stays staged: %s is mounted and not in the journal", e.Point)
		}
	}
	return false, nil
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
	return s.journal.remove(key)
}

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
	next := *r
	next.Told = failure.Error()
	if _, err := s.journal.put(next); err != nil {
		s.log.Error("write journal", "error", err)
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

// silent says why nothing is heard of a plugin.
func (s *Service) silent(pluginID string) string {
	if _, err := s.plugins.find(api.CSIPluginTypeNode, pluginID); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("plugin %q has not answered yet", pluginID)
}

func (s *Service) report(ctx context.Context, r *row, failure string) error {
	ctx, cancel := context.WithTimeout(ctx, tellWait)
	defer cancel()
	req := &api.VolumeUnpublishRequest{VolumeID: r.VolumeID, AllocID: r.AllocID, Error: failure}
	req.Namespace = r.Namespace
	return s.send(ctx, req)
}

// send makes a report in the node's name.
func (s *Service) send(ctx context.Context, req *api.VolumeUnpublishRequest) error {
	req.NodeID, req.NodeSecret = s.conf.NodeID(), s.conf.NodeSecret()
	_, err := wire.VolumeUnpublish.Call(ctx, s.conf.Servers, req)
	return err
}
