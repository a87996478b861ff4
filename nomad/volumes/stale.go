package volumes

import (
	"context"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func staleKey(node string, m *api.StaleMount) key { return key{kindStale, node, m.VolumeID, m.AllocID} }

// lookStale asks a node that is there again to unmount what it had when its claim was given up, and takes its
// yes for the report. Nodes do so by themselves; this is for those that forgot.
func (s *Service) lookStale(ctx context.Context, k key, t tries) time.Time {
	var later time.Time
	next := s.doAll(ctx, t, func() []job {
		later = time.Time{}
		c, at := s.staleClaim(s.state.Read(), k)
		switch {
		case c == nil:
			return nil
		case at.After(s.now()):
			later = at
			return nil
		}
		return []job{{name: "unmount on " + c.NodeID, do: s.nudge(c), failed: s.staleFailed(c)}}
	})
	if next.IsZero() {
		return later
	}
	return next
}

// staleClaim is the claim of a stale mount as far as unmounting goes, and when its node may be asked; nil when
// it is gone, its allocation still runs, or the node is away.
func (s *Service) staleClaim(tx *state.Txn, k key) (*api.VolumeClaim, time.Time) {
	n := tx.Node(k.a)
	if n == nil || n.Status != api.NodeStatusReady && n.Status != api.NodeStatusInit {
		return nil, time.Time{}
	}
	i := slices.IndexFunc(n.StaleMounts, func(m *api.StaleMount) bool { return staleKey(n.ID, m) == k })
	if i < 0 {
		return nil, time.Time{}
	}
	m := n.StaleMounts[i]
	since := max(m.Since, n.StatusUpdatedAt*int64(time.Second))
	if a := tx.Alloc(m.AllocID); a != nil {
		if !a.ClientTerminal() {
			return nil, time.Time{}
		}
		since = max(since, a.ModifyTime)
	}
	return &api.VolumeClaim{
		Namespace: m.Namespace, VolumeID: m.VolumeID, AllocID: m.AllocID, NodeID: n.ID, PluginID: m.PluginID, ExternalID: m.ExternalID,
	}, time.Unix(0, since).Add(s.limits.NudgeAfter)
}

func (s *Service) staleFailed(c *api.VolumeClaim) func(context.Context, error, try) error {
	return func(ctx context.Context, err error, _ try) error {
		return s.record(ctx, &Report{
			Namespace: c.Namespace, VolumeID: c.VolumeID, AllocID: c.AllocID, NodeID: c.NodeID, Reason: err.Error(),
		})
	}
}
