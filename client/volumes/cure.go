package volumes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

const (
	// deadSignal is what tasks get whose volume wants a signal.
	deadSignal = "SIGHUP"
	// cureWait bounds one try to publish a dead mount anew.
	cureWait = 2 * time.Minute
	// cureTasksWait bounds asking the tasks for a restart.
	cureTasksWait = 10 * time.Second
)

// cure does with one dead mount what its volume's policy wants. An error means: later again.
func (s *Service) cure(ctx context.Context, key string) error {
	r := s.journal.row(key)
	if !curable(r) {
		return nil
	}
	reason := fmt.Sprintf("the mount of volume %s was dead", r.VolumeID)
	if policyOf(r) == api.MountDeadSignal {
		ctx, cancel := context.WithTimeout(ctx, cureTasksWait)
		defer cancel()
		if err := s.conf.Tasks.Signal(ctx, r.AllocID, r.VolumeID, deadSignal, reason); err != nil {
			s.log.Warn("signal tasks of a dead mount", "volume_id", r.VolumeID, "alloc_id", r.AllocID, "error", err)
		}
		return nil
	}
	if err := s.republish(ctx, key); err != nil {
		if ctx.Err() == nil && s.ward.tell(key, err.Error()) {
			s.log.Warn("publish a dead mount anew", "volume_id", r.VolumeID, "alloc_id", r.AllocID, "error", err)
			s.conf.Tasks.Tell(r.AllocID, r.VolumeID, EventVolumeUnhealthy,
				fmt.Sprintf("volume %s cannot be published anew yet: %s", r.VolumeID, err))
		}
		return err
	}
	return s.refresh(ctx, key, reason)
}

// curable tells rows that are mounted, or whose cure failed halfway.
func curable(r *row) bool {
	return r != nil && (r.State == rowMounted || r.State == rowMounting)
}

// refresh restarts the tasks that still have the mount of before a republish.
func (s *Service) refresh(ctx context.Context, key, reason string) error {
	r := s.journal.row(key)
	if r == nil || r.State != rowMounted || !r.Stale {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cureTasksWait)
	defer cancel()
	if err := s.conf.Tasks.Restart(ctx, r.AllocID, r.VolumeID, policyOf(r) == api.MountDeadRestart, reason); err != nil {
		return fmt.Errorf("restart tasks: %w", err)
	}
	release, err := s.locks.take(ctx, r.volume())
	if err != nil {
		return err
	}
	defer release()
	return s.setStale(key, false)
}

// setStale writes down whether tasks have an older mount than the published one. The caller holds the volume's turn.
func (s *Service) setStale(key string, stale bool) error {
	r := s.journal.row(key)
	if !curable(r) || r.Stale == stale {
		return nil
	}
	next := *r
	next.Stale = stale
	_, err := s.journal.put(next)
	return err
}

// republish takes a dead mount away and publishes the volume anew. The row stays mounted meanwhile: after a
// crash Up finds nothing at the target and publishes, and Down undoes what there may be.
func (s *Service) republish(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, cureWait)
	defer cancel()
	r := s.journal.row(key)
	if !curable(r) {
		return nil
	}
	w, err := s.wishOf(r)
	if err != nil {
		return err
	}
	// Everything that may be missing is waited for before the dead mount goes, and outside of the turn.
	reply, err := s.claim(ctx, w)
	if err != nil {
		return err
	}
	p, err := s.plugins.wait(ctx, api.CSIPluginTypeNode, r.PluginID, downPluginWait)
	if err != nil {
		return err
	}
	dead, err := s.clearDead(ctx, p, key)
	if err != nil || !dead {
		return err
	}
	if _, err := s.publish(ctx, w, reply); err != nil {
		return err
	}
	s.log.Info("published a dead mount anew", "volume_id", r.VolumeID, "alloc_id", r.AllocID, "path", r.Target.Host)
	if _, healed, _ := s.ward.note(key, living, time.Now()); healed {
		s.tellHealthy(r)
	}
	return nil
}

// wishOf is the wish that made the row.
func (s *Service) wishOf(r *row) (*wish, error) {
	a := s.ward.alloc(r.AllocID)
	if a == nil {
		return nil, fault.New(fault.Unavailable, "allocation %s is not taken up yet", r.AllocID)
	}
	for _, w := range wishes(a) {
		if w.volumeID == r.VolumeID {
			return w, nil
		}
	}
	return nil, fault.New(fault.NotFound, "allocation %s does not ask for volume %s", r.AllocID, r.VolumeID)
}

// clearDead unpublishes the row's dead mount, and unstages below it when the staging is dead too. It reports
// false when the mount lives.
func (s *Service) clearDead(ctx context.Context, p *plugin, key string) (bool, error) {
	r := s.journal.row(key)
	if r == nil {
		return false, nil
	}
	release, err := s.turn(ctx, r.PluginID, r.volume())
	if err != nil {
		return false, err
	}
	defer release()
	if r = s.journal.row(key); !curable(r) {
		return false, nil
	}
	at, err := mounts.At(r.Target.Host)
	if err != nil {
		return false, err
	}
	v, why := s.examine(ctx, r, at)
	switch v {
	case living:
		return r.State == rowMounting, nil
	case unsure:
		return false, fault.New(fault.Unavailable, "it is not known whether the mount at %s lives", r.Target.Host)
	default:
		s.log.Debug("take a dead mount away", "path", r.Target.Host, "why", why)
	}
	if err := s.setStale(key, true); err != nil {
		return false, err
	}
	if at != nil && v == silent {
		s.probes.abort(ctx, at)
	}
	if err := s.takeAway(ctx, p, r); err != nil {
		if errors.Is(err, fault.Unavailable) {
			p.hurry()
		}
		return false, err
	}
	return true, s.clearStaging(ctx, p, r)
}

// takeAway unpublishes a target and believes the mount table. The caller holds the volume's turn.
func (s *Service) takeAway(ctx context.Context, p *plugin, r *row) error {
	if err := p.client.NodeUnpublish(ctx, r.ExternalID, p.see(r.Target)); err != nil {
		return fmt.Errorf("unpublish: %w", err)
	}
	return removeLeaf(r.Target.Host)
}

// clearStaging unstages a dead staging. Other allocations whose mounts of it still live keep it; dead mounts
// of others go with it, and are published anew by their own cure.
func (s *Service) clearStaging(ctx context.Context, p *plugin, r *row) error {
	st := s.journal.stageOf(r.PluginID, r.ExternalID)
	if st == nil {
		return nil
	}
	at, err := mounts.At(st.Path.Host)
	if err != nil || at == nil {
		return err
	}
	v, _ := s.probes.look(ctx, at)
	if v == living || v == unsure {
		return nil
	}
	others := s.journal.users(r)
	for _, o := range others {
		mounted, err := mounts.At(o.Target.Host)
		if err != nil {
			return err
		}
		if mounted == nil {
			continue
		}
		if v, _ := s.examine(ctx, o, mounted); v == living || v == unsure {
			return fault.New(fault.Unavailable, "the staging mount at %s is dead, but allocation %s uses it", st.Path.Host, o.AllocID)
		}
	}
	for _, o := range others {
		if err := s.takeAway(ctx, p, o); err != nil {
			return err
		}
	}
	if v == silent {
		s.probes.abort(ctx, at)
	}
	if err := s.unstage(ctx, p, r.ExternalID, st.Path); err != nil {
		return fmt.Errorf("unstage: %w", err)
	}
	return s.journal.removeStage(st)
}
