package reconciler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// lostOptions lists what proves, or lets us assume, that a node which is lost does not use the volume.
func (r *Reconciler) lostOptions(tx *state.Txn, n *api.Node, c *api.VolumeClaim) []option {
	onNodeLoss, fenceAfter := ledger.LossPolicy(tx, c)
	var out []option
	show := func(at time.Time, why string) {
		if e := r.explain(n, c, at, why); e != nil {
			out = append(out, option{operation: *e})
		}
	}
	give := func(proof, by string, at time.Time, why string) {
		if at.After(r.now()) {
			show(at, why)
		}
		out = append(out, option{r.giveUp(c, proof, by), at})
	}
	since := r.lostAt(n, c)
	fence := since.Add(cmp.Or(fenceAfter, r.limits.FenceAfter))
	switch contested := claim.Contested(c, slices.Collect(tx.VolumesByExternal(c.PluginID, c.ExternalID))); {
	case onNodeLoss == api.NodeLossAssume:
		give(ledger.ProofAssumed, ledger.ByPolicy, since, "")
	case c.Attach && c.Lease == 0:
		give(ledger.ProofFenced, ledger.ByProvider, fence, "it is detached by its storage")
	case c.Lease == 0 && !contested:
		give(ledger.ProofAssumed, ledger.ByPolicy, since, "")
	case c.Lease == 0:
		show(time.Time{}, "neither its storage nor a lease keeps it from writing: the node must come back, or an operator detach the volume with -force")
	case onNodeLoss == api.NodeLossWait:
		show(time.Time{}, "on_node_loss is wait: the node must come back, or an operator detach the volume with -force")
	case c.Attach:
		give(ledger.ProofFenced, ledger.ByProvider, later(fence, r.leaseEnd(c)), "the node's lease ends, and then it is detached by its storage")
	default:
		give(ledger.ProofFenced, ledger.ByLease, r.leaseEnd(c), "the node's lease ends")
	}
	if r.shutOff(n, c.NodeID) {
		out = append(out, option{r.giveUp(c, ledger.ProofFenced, ledger.ByHook), since})
	}
	return out
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// lostAt returns the time of the node's last confirmed heartbeat. A leader that did not see the loss has the
// second of its record, which may have been the end of that second; the loss was no later than when it was noticed,
// whatever the clock of that record was.
func (r *Reconciler) lostAt(n *api.Node, c *api.VolumeClaim) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.losses.notice(n, c.NodeID, r.now())
	if at, seen := r.losses.seen[c.NodeID]; seen {
		return at
	}
	at := time.Unix(0, c.Since)
	if n != nil {
		at = time.Unix(n.StatusUpdatedAt+1, 0)
	}
	if noticed := r.losses.last[c.NodeID].at.Add(time.Second); at.After(noticed) {
		return noticed
	}
	return at
}

// losses knows when nodes were lost by this server's own clock: clocks of two servers are never compared.
// It is the leader's, for one term.
type losses struct {
	term time.Time
	// last is when each lost node was last heard.
	last map[string]lastContact
	// seen is when the losses of this term were seen.
	seen map[string]time.Time
	// fenced are lost nodes that the operator's hook has shut off.
	fenced map[string]loss
	// returns counts how often nodes came back.
	returns map[string]int
	// restored is the mark of the last restore that was seen, and since when.
	restored int64
	since    time.Time
}

// loss identifies one loss of a node: between two losses the node was there, which may have been missed.
type loss struct {
	second int64
	missed uint64
}

// lossOf is the loss that the row of a lost node is about; nothing is known of a node without a row.
func lossOf(n *api.Node) loss {
	if n == nil {
		return loss{}
	}
	return loss{n.StatusUpdatedAt, n.LastMissedHeartbeatIndex}
}

// lastContact is when a node was last lastContact before a loss.
type lastContact struct {
	at time.Time
	of loss
}

// notice records a loss that a claim is reconciled for before the node's change has arrived.
func (l *losses) notice(n *api.Node, id string, now time.Time) {
	if l.knows(n, id) {
		return
	}
	l.forget(id)
	l.last[id] = lastContact{now, lossOf(n)}
	if n != nil {
		l.seen[id] = now
	}
}

// knows reports whether this loss of the node was seen. The removal of its row is not another loss.
func (l *losses) knows(n *api.Node, id string) bool {
	last, known := l.last[id]
	return known && (n == nil || last.of == lossOf(n))
}

func (l *losses) forget(id string) {
	if _, lost := l.last[id]; lost {
		l.returns[id]++
	}
	delete(l.last, id)
	delete(l.seen, id)
	delete(l.fenced, id)
}

// newTerm forgets what was seen in earlier terms. Nodes may have renewed their leases while there was no
// leader, so each lease counts from the beginning of the term at the earliest.
func (r *Reconciler) newTerm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	tx := r.state.Read()
	r.termIndex = tx.Index()
	r.losses = losses{
		term: r.now(), last: map[string]lastContact{}, seen: map[string]time.Time{}, fenced: map[string]loss{}, returns: map[string]int{},
	}
}

// noteLoss remembers when a node was lost, and forgets it when it is back.
func (r *Reconciler) noteLoss(id string, before, after *api.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !ledger.Away(after):
		r.losses.forget(id)
	case before != nil && !ledger.Away(before):
		silence := time.Duration(0)
		if after != nil {
			silence = after.Silence
		}
		r.losses.last[id] = lastContact{r.now().Add(-silence), lossOf(after)}
		if _, known := r.losses.seen[id]; !known {
			r.losses.seen[id] = r.now()
		}
	case before != nil && after != nil: // the same loss, in another row
		if last, known := r.losses.last[id]; known {
			r.losses.last[id] = lastContact{last.at, lossOf(after)}
		}
	}
}

// noteLosses brings what is known of all nodes up to date after changes were missed.
func (r *Reconciler) noteLosses(tx *state.Txn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := range tx.Nodes() {
		switch lost := ledger.Away(n); {
		case lost && r.losses.knows(n, n.ID):
		case lost:
			r.losses.forget(n.ID)
			r.losses.last[n.ID] = lastContact{r.now(), lossOf(n)}
		default:
			r.losses.forget(n.ID)
		}
	}
}

// clockSkew is the part of a lease that is waited for beyond it: the clocks of a node and of this server
// may each go wrong by one in a hundred.
const clockSkew = 40

// expiry is when a lease that began at a time has certainly ended. The sum of the durations may be no duration any more.
func (r *Reconciler) expiry(from time.Time, lease time.Duration) time.Time {
	return from.Add(lease).Add(lease/clockSkew + r.limits.LeaseMargin)
}

// leaseEnd is when the node has certainly kept its promise.
func (r *Reconciler) leaseEnd(c *api.VolumeClaim) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := r.losses.term
	if last := r.losses.last[c.NodeID]; last.at.After(from) {
		from = last.at
	}
	return r.expiry(from, c.Lease)
}

// explain records on the claim what it waits for; nil when that is recorded already.
func (r *Reconciler) explain(n *api.Node, c *api.VolumeClaim, at time.Time, why string) *operation {
	is := "down"
	if n != nil {
		is = n.Status
	}
	reason := fmt.Sprintf("node %s is %s: %s", c.NodeID, is, why)
	var next int64
	if !at.IsZero() {
		next = at.UnixNano()
	}
	if c.LastError == reason && c.NextRetry == next {
		return nil
	}
	return &operation{name: "explain " + reason, failed: r.quietly, do: func(ctx context.Context, _ try) error {
		return r.record(ctx, &commands.Report{
			Namespace: c.Namespace, VolumeID: c.VolumeID, AllocID: c.AllocID, Use: c.Use, NodeID: c.NodeID, Reason: reason, NextRetry: next,
		})
	}}
}

// giveUp ends the claim without a report of the node.
func (r *Reconciler) giveUp(c *api.VolumeClaim, proof, by string) operation {
	return operation{name: "give up " + c.NodeID, failed: r.quietly, do: func(ctx context.Context, _ try) error {
		err := r.record(ctx, &commands.Evict{
			Namespace: c.Namespace, VolumeID: c.VolumeID, NodeID: c.NodeID, AllocIDs: []string{c.AllocID}, Uses: []string{c.Use},
			Proof: proof, By: by, Lost: true,
		})
		if err == nil {
			r.log.Info("claim of a lost node is released", "volume", c.VolumeID, "namespace", c.Namespace,
				"alloc", c.AllocID, "node", c.NodeID, "proof", proof, "by", by)
		}
		return err
	}}
}
