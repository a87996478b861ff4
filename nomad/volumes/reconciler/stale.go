package reconciler

import (
	"context"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
)

func staleKey(node string, m *api.StaleMount) key {
	return key{kindStale, node, m.VolumeID, m.AllocID + "/" + m.Use}
}

// lookStale asks a node that is there again to unmount what it had when its claim was evicted, and treats success as
// the node's report. Nodes do so by themselves; this is for those that forgot.
func (r *Reconciler) lookStale(ctx context.Context, k key, t tries) time.Time {
	var later time.Time
	next := r.doAll(ctx, t, func() []operation {
		later = time.Time{}
		c, at := r.staleClaim(r.state.Read(), k)
		switch {
		case c == nil:
			return nil
		case at.After(r.now()):
			later = at
			return nil
		}
		return []operation{{name: "unmount on " + c.NodeID, do: r.askUnmount(c), failed: r.staleFailed(c)}}
	})
	if next.IsZero() {
		return later
	}
	return next
}

// staleClaim returns a stale mount as a claim, with what unmounting needs, and when its node may be asked; nil when it
// was removed, its allocation still runs, or the node is away.
func (r *Reconciler) staleClaim(tx *state.Txn, k key) (*api.VolumeClaim, time.Time) {
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
		Namespace: m.Namespace, VolumeID: m.VolumeID, AllocID: m.AllocID, Use: m.Use, NodeID: n.ID, PluginID: m.PluginID, ExternalID: m.ExternalID,
	}, r.askAfter(since)
}

func (r *Reconciler) staleFailed(c *api.VolumeClaim) func(context.Context, failure, try) error {
	return func(ctx context.Context, f failure, t try) error {
		if !t.news {
			return nil
		}
		return r.record(ctx, &commands.Report{
			Namespace: c.Namespace, VolumeID: c.VolumeID, AllocID: c.AllocID, Use: c.Use, NodeID: c.NodeID, Reason: f.err.Error(),
		})
	}
}
