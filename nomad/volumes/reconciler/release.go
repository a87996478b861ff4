package reconciler

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// lookRelease helps a claim whose node should unmount: it evicts the claims of a lost node, and asks a node that is
// there but forgot to report.
func (r *Reconciler) lookRelease(ctx context.Context, k key, t tries) time.Time {
	var later time.Time
	next := r.doAll(ctx, t, func() []operation {
		later = time.Time{}
		tx := r.state.Read()
		alloc, use, _ := strings.Cut(k.c, "/")
		c := tx.Claim(k.a, k.b, alloc, use)
		if c == nil || c.State != api.ClaimReleasing {
			return nil
		}
		var due []operation
		for _, o := range r.options(tx, c) {
			switch {
			case !o.at.After(r.now()):
				due = append(due, o.operation)
			case later.IsZero() || o.at.Before(later):
				later = o.at
			}
		}
		return due
	})
	if next.IsZero() || !later.IsZero() && later.Before(next) {
		return later
	}
	return next
}

// option is a way to end a claim, and when it may be taken.
type option struct {
	operation operation
	at        time.Time
}

// options lists what would end the claim; none while only its node can. A node that is disconnected counts as lost for
// an allocation that may not live on without contact, or that is no longer wanted, so that others get the volume.
func (r *Reconciler) options(tx *state.Txn, c *api.VolumeClaim) []option {
	n, a := tx.Node(c.NodeID), tx.Alloc(c.AllocID)
	over, unwanted := a == nil || a.ClientTerminal(), a == nil || a.Terminal()
	switch lost := ledger.Lost(n) || unwanted && ledger.Away(n); {
	case lost && ledger.Unreported(tx, c.NodeID):
		return nil
	case lost:
		return r.lostOptions(tx, n, c)
	case ledger.Away(n) || !over:
		return nil
	}
	since := c.Since
	if a != nil {
		since = max(since, a.ModifyTime)
	}
	return []option{{
		operation{name: "unmount on " + c.NodeID, do: r.askUnmount(c), failed: r.unmountFailed(c)},
		r.askAfter(since),
	}}
}

// askAfter is when a node is asked that should have unmounted at a time of the log. One that is far ahead was written by
// a clock that was fast.
func (r *Reconciler) askAfter(since int64) time.Time {
	at, now := time.Unix(0, since), r.now()
	if at.Sub(now) > r.limits.UnmountAfter {
		return now
	}
	return at.Add(r.limits.UnmountAfter)
}

// askUnmount asks the node to unmount and takes its yes for the report.
func (r *Reconciler) askUnmount(c *api.VolumeClaim) func(context.Context, try) error {
	return func(ctx context.Context, _ try) error {
		if err := r.Unmount(ctx, c, false); err != nil {
			return err
		}
		return r.record(ctx, &commands.Report{Namespace: c.Namespace, VolumeID: c.VolumeID, AllocID: c.AllocID, Use: c.Use, NodeID: c.NodeID})
	}
}

// Unmount asks the node of a claim to unmount and waits until it has. With force the node does what its plugin cannot.
func (r *Reconciler) Unmount(ctx context.Context, c *api.VolumeClaim, force bool) error {
	_, err := callNode(ctx, r, wire.NodeVolumeDetach, flight{node: c.NodeID}, r.limits.AttachTimeout, &api.NodeVolumeDetachRequest{
		Namespace: c.Namespace, VolumeID: c.VolumeID, ExternalID: c.ExternalID, PluginID: c.PluginID, AllocID: c.AllocID, Use: c.Use, Force: force,
	})
	if err != nil { // a restarted node does not know which secrets its drivers quote
		err = hidden(err, r.secrets.Plain(secretsOf(r.state.Read(), c.PluginID, c.ExternalID)...))
		return fmt.Errorf("unmount on node %s: %w", c.NodeID, err)
	}
	return nil
}

func (r *Reconciler) unmountFailed(c *api.VolumeClaim) func(context.Context, failure, try) error {
	return func(ctx context.Context, f failure, t try) error {
		now := r.state.Read().Claim(c.Namespace, c.VolumeID, c.AllocID, c.Use)
		if now == nil || !t.shows(now.LastError, f) {
			return nil
		}
		return r.record(ctx, &commands.Report{
			Namespace: c.Namespace, VolumeID: c.VolumeID, AllocID: c.AllocID, Use: c.Use, NodeID: c.NodeID, Reason: f.err.Error(),
		})
	}
}

// probeTimeout bounds a probe of a node's plugins; the node bounds the calls of the instances by less.
const probeTimeout = 8 * time.Second

// Probe calls the instances of a plugin on a node, with calls that read no volume.
func (r *Reconciler) Probe(ctx context.Context, node, plugin string) ([]*api.PluginInstance, error) {
	out, err := callNode(ctx, r, wire.NodePluginProbe, flight{node: node}, probeTimeout, &api.NodePluginProbeRequest{PluginID: plugin})
	if err != nil {
		return nil, err
	}
	return out.Instances, nil
}
