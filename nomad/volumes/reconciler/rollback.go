package reconciler

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

func rollbackKey() key { return key{kind: kindRollback} }

// lookRollback ends the wait for nodes that have to tell what they have mounted, and goes on with all that waited.
func (r *Reconciler) lookRollback(ctx context.Context, q *queue) time.Time {
	tx := r.state.Read()
	if ledger.Unsure(tx) == "" {
		if r.rollbackOver() { // the answer that said so was lost
			r.wakeAll(ctx, q)
		}
		return time.Time{}
	}
	if at := r.toldBy(tx); at.After(r.now()) {
		return at
	}
	silent := len(tx.Rollback().Awaited)
	if err := r.record(ctx, &commands.RollbackOver{At: tx.Rollback().At}); err != nil {
		r.log.Debug("volumes still wait for what nodes have mounted", "error", err)
		return r.now().Add(r.limits.RetryMin)
	}
	r.rollbackOver()
	r.log.Info("volumes go on after the servers were restored to an older state", "nodes_that_did_not_tell", silent)
	r.wakeAll(ctx, q)
	return time.Time{}
}

// perNode is by how much longer each node has to be heard: they are given the more time between heartbeats the more
// they are.
const perNode = 40 * time.Millisecond

// toldBy is when volumes go on: when those who nobody knew to be down have told, and those that are not known have had
// the time to; at the latest when all promises that a silent node can have made have ended.
func (r *Reconciler) toldBy(tx *state.Txn) time.Time {
	from := r.sawRollback(tx.Rollback())
	heard, longest := r.limits.Regather, max(ledger.LeaseDefault, tx.Rollback().Lease)
	for range tx.Nodes() {
		heard += perNode
	}
	if len(tx.Rollback().Awaited) == 0 {
		return from.Add(heard)
	}
	for c := range tx.Claims() {
		longest = max(longest, c.Lease)
	}
	for v := range tx.Volumes(api.AllNamespaces) {
		longest = max(longest, v.Lease)
	}
	return later(from.Add(heard), r.expiry(from, longest))
}

// sawRollback is when this leader saw the state go back: raft gives it to a leader in the middle of its term.
func (r *Reconciler) sawRollback(b *api.Rollback) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.losses.rollback != b.At {
		r.losses.rollback, r.losses.since = b.At, r.now()
	}
	r.losses.unsure = true
	return r.losses.since
}

// rollbackOver reports, once, that this leader has seen the wait for nodes that is over.
func (r *Reconciler) rollbackOver() (seen bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, r.losses.unsure = r.losses.unsure, false
	return seen
}

// outdated reports whether the node's row may be an old one: it has not told yet what is true now.
func outdated(tx *state.Txn, node string) bool {
	return ledger.Unsure(tx) != "" && ledger.Untold(tx, node)
}
