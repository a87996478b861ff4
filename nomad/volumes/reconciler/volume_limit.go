package reconciler

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

func limitKey(node string) key { return key{kindLimit, node, "", ""} }

// limitExpiry is until when a volume limit that a driver has just reported is valid, in Unix nanoseconds.
func (r *Reconciler) limitExpiry() int64 { return r.now().Add(r.limits.LimitExpiry).UnixNano() }

// lookLimit forgets the volume limits of a node when they have expired.
func (r *Reconciler) lookLimit(ctx context.Context, k key) time.Time {
	tx := r.state.Read()
	n := tx.Node(k.a)
	if n == nil || len(n.CSILimits) == 0 {
		return time.Time{}
	}
	var next time.Time
	for _, l := range n.CSILimits {
		if at := ledger.Until(tx, l, r.now()); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if next.After(r.now()) {
		return next
	}
	if err := r.Settle(ctx); err != nil {
		r.log.Debug("limits of nodes were not forgotten", "node", k.a, "error", err)
	}
	return r.now().Add(r.limits.RetryMin)
}
