package volumes

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// lookRelease helps a claim whose node should unmount: it gives up a node that is lost, and asks one
// that is there but forgot to report.
func (s *Service) lookRelease(ctx context.Context, k key, t tries) time.Time {
	var later time.Time
	next := s.doAll(ctx, t, func() []job {
		tx := s.state.Read()
		c := tx.Claim(k.a, k.b, k.c)
		later = time.Time{}
		if c == nil || c.State != api.ClaimReleasing {
			return nil
		}
		j, due := s.releaseJob(tx, c)
		if j == nil || due.After(s.now()) {
			later = due
			return nil
		}
		return []job{*j}
	})
	if next.IsZero() {
		return later
	}
	return next
}

// releaseJob is what would end the claim and when it may be done; nil while only its node can.
func (s *Service) releaseJob(tx *state.Txn, c *api.VolumeClaim) (*job, time.Time) {
	n := tx.Node(c.NodeID)
	if lost(n) {
		due := lostAt(n, c).Add(s.patienceWith(c))
		return &job{name: "give up " + c.NodeID, do: s.giveUp(c), failed: s.quietly}, due
	}
	a := tx.Alloc(c.AllocID)
	if n.Status != api.NodeStatusReady || a != nil && !a.ClientTerminal() {
		return nil, time.Time{}
	}
	since := c.Since
	if a != nil {
		since = max(since, a.ModifyTime)
	}
	return &job{
		name: "unmount on " + c.NodeID, do: s.nudge(c), failed: s.unmountFailed(c),
	}, time.Unix(0, since).Add(s.limits.NudgeAfter)
}

// lostAt is since when nobody knows what happens on the node.
func lostAt(n *api.Node, c *api.VolumeClaim) time.Time {
	if n == nil {
		return time.Unix(0, c.Since)
	}
	return time.Unix(n.StatusUpdatedAt, 0)
}

// patienceWith is how long a lost node may still use the volume. Storage that detaches is its own
// fence; without it an exclusive volume waits for the end of the node's lease.
func (s *Service) patienceWith(c *api.VolumeClaim) time.Duration {
	switch {
	case c.Attach:
		return s.limits.FenceAfter
	case claim.Exclusive(c.AccessMode, c.Mode):
		return s.limits.Lease
	}
	return 0
}

func (s *Service) giveUp(c *api.VolumeClaim) func(context.Context) error {
	return func(ctx context.Context) error {
		err := s.record(ctx, &Evict{
			Namespace: c.Namespace, VolumeID: c.VolumeID, NodeID: c.NodeID, AllocIDs: []string{c.AllocID},
			Proof: ledger.ProofFenced, Lost: true,
		})
		if err == nil {
			s.log.Info("claim of a lost node is given up", "volume", c.VolumeID, "namespace", c.Namespace, "alloc", c.AllocID, "node", c.NodeID)
		}
		return err
	}
}

// nudge asks the node to unmount and takes its yes for the report.
func (s *Service) nudge(c *api.VolumeClaim) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := s.unmount(ctx, c); err != nil {
			return err
		}
		return s.record(ctx, &Report{Namespace: c.Namespace, VolumeID: c.VolumeID, AllocID: c.AllocID, NodeID: c.NodeID})
	}
}

func (s *Service) unmount(ctx context.Context, c *api.VolumeClaim) error {
	_, err := callNode(ctx, s, wire.NodeVolumeDetach, c.NodeID, s.limits.AttachTimeout, &api.NodeVolumeDetachRequest{
		Namespace: c.Namespace, VolumeID: c.VolumeID, ExternalID: c.ExternalID, PluginID: c.PluginID, AllocID: c.AllocID,
	})
	if err != nil {
		return fmt.Errorf("unmount on node %s: %w", c.NodeID, err)
	}
	return nil
}

func (s *Service) unmountFailed(c *api.VolumeClaim) func(context.Context, error, try) error {
	return func(ctx context.Context, err error, _ try) error {
		now := s.state.Read().Claim(c.Namespace, c.VolumeID, c.AllocID)
		if now == nil || now.LastError == err.Error() {
			return nil
		}
		return s.record(ctx, &Report{
			Namespace: c.Namespace, VolumeID: c.VolumeID, AllocID: c.AllocID, NodeID: c.NodeID, Reason: err.Error(),
		})
	}
}
