package reconciler

import (
	"context"
	"os/exec"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// hookTimeout bounds one run of the fencing hook.
const hookTimeout = time.Minute

func hookKey(node string) key { return key{kindHook, node, "", ""} }

// lookHook has the operator's fencing program shut off a node that was lost while volumes wait for it. One run
// serves all claims of the node, and nothing else waits for it.
func (r *Reconciler) lookHook(ctx context.Context, k key, t tries, done func(*state.Txn)) time.Time {
	return r.doAll(ctx, t, func() []operation {
		tx := r.state.Read()
		if r.limits.FenceHook == "" || !ledger.Lost(tx.Node(k.a)) || ledger.Unreported(tx, k.a) || r.shutOff(tx.Node(k.a), k.a) || !releasing(tx, k.a) {
			return nil
		}
		return []operation{{
			name: "fence " + k.a,
			do: func(ctx context.Context, _ try) error {
				err := r.fence(ctx, k.a)
				if err == nil {
					done(r.state.Read())
				}
				return err
			},
			failed: func(_ context.Context, f failure, _ try) error {
				r.log.Warn("fencing hook failed", "node", k.a, "error", f.err)
				return nil
			},
		}}
	})
}

// releasing reports whether a claim waits for the node.
func releasing(tx *state.Txn, node string) bool {
	for c := range tx.ClaimsByNode(node) {
		if c.State == api.ClaimReleasing {
			return true
		}
	}
	return false
}

// shutOff reports whether the hook has shut the node off since it was lost.
func (r *Reconciler) shutOff(n *api.Node, id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	of, fenced := r.losses.fenced[id]
	return fenced && (n == nil || of == lossOf(n))
}

// fence runs the operator's fencing program; its exit with 0 proves that the node is off, if it was away all the time.
func (r *Reconciler) fence(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	r.mu.Lock()
	returns := r.losses.returns[node]
	r.mu.Unlock()
	name, lost := "", r.state.Read().Node(node)
	if lost != nil {
		name = lost.Name
	}
	cmd := exec.CommandContext(ctx, r.limits.FenceHook, node, name)
	cmd.WaitDelay = time.Second // what it has started may hold on to its output
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fault.New(fault.Unavailable, "fencing hook %s for node %s: %w: %.200s", r.limits.FenceHook, node, err, out)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.state.Read().Node(node)
	if r.losses.returns[node] != returns || !ledger.Lost(now) || now != nil && lossOf(now) != lossOf(lost) {
		return fault.New(fault.Unavailable, "fencing hook %s for node %s: the node came back before it ended", r.limits.FenceHook, node)
	}
	r.losses.fenced[node] = lossOf(lost)
	return nil
}
