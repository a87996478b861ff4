package reconciler

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
)

func restoreKey() key { return key{kind: kindRestore} }

// perNode is the additional time that each node is given to register: the time between heartbeats grows with the number
// of nodes.
const perNode = 40 * time.Millisecond

// endHold ends the hold on volumes after a restore, when all known nodes have reported their mounts and nodes that the
// servers do not know have had the time to register.
func (r *Reconciler) endHold(ctx context.Context) time.Time {
	tx := r.state.Read()
	hold := tx.Rollback()
	if hold == nil {
		return time.Time{}
	}
	at := r.sawRestore(hold).Add(r.limits.Regather)
	for range tx.Nodes() {
		at = at.Add(perNode)
	}
	switch {
	case len(hold.Unreported) > 0: // the last report wakes this key
		return time.Time{}
	case at.After(r.now()):
		return at
	}
	if err := r.record(ctx, &commands.EndHold{At: hold.At}); err != nil {
		r.log.Debug("the hold on volumes after a restore could not be ended", "error", err)
		return r.now().Add(r.limits.RetryMin)
	}
	r.log.Info("all nodes have reported their mounts since the restore: volumes are released")
	return time.Time{}
}

// sawRestore returns when this leader saw the restore first.
func (r *Reconciler) sawRestore(hold *api.Rollback) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.losses.restored != hold.At {
		r.losses.restored, r.losses.since = hold.At, r.now()
	}
	return r.losses.since
}

// holdChanged reconciles everything when the hold has ended, or an operator has released a volume from it.
func (r *Reconciler) holdChanged(ctx context.Context, q *queue, tx *state.Txn) {
	was, now := r.hold, tx.Rollback()
	r.hold = now
	if was != nil && (now == nil || len(now.Released) > len(was.Released)) {
		r.wakeAll(ctx, q)
	}
}
