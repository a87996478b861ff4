package volumes

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// hookTimeout bounds one run of the fencing hook.
const hookTimeout = time.Minute

var nodeLoss = []string{"", api.NodeLossFence, api.NodeLossWait, api.NodeLossAssume}

// leaseMin bounds leases from below: nodes send three heartbeats in each.
const leaseMin = time.Second

// lossErrors checks what shall be done when a node is lost.
func lossErrors(v *api.VolumeSpec) (errs []error) {
	if !slices.Contains(nodeLoss, v.OnNodeLoss) {
		errs = append(errs, fmt.Errorf("on_node_loss %q is unknown: use one of %s", v.OnNodeLoss, strings.Join(nodeLoss[1:], ", ")))
	}
	if v.FenceAfter < 0 {
		errs = append(errs, fmt.Errorf("fence_after %s is negative", v.FenceAfter))
	}
	if v.Lease < 0 || v.Lease > 0 && v.Lease < leaseMin {
		errs = append(errs, fmt.Errorf("lease %s is too short: use %s or more, or leave it out for %s", v.Lease, leaseMin, ledger.LeaseDefault))
	}
	return errs
}

// lostOptions lists what proves, or lets us assume, that a node which is lost does not use the volume.
func (s *Service) lostOptions(tx *state.Txn, n *api.Node, c *api.VolumeClaim) []option {
	v := tx.Volume(c.Namespace, c.VolumeID)
	if v == nil {
		v = &api.Volume{}
	}
	var out []option
	tell := func(at time.Time, why string) {
		if e := s.explain(c, at, why); e != nil {
			out = append(out, option{job: *e})
		}
	}
	give := func(proof, by string, at time.Time, why string) {
		if at.After(s.now()) {
			tell(at, why)
		}
		out = append(out, option{s.giveUp(c, proof, by), at})
	}
	since := s.lostAt(n, c)
	switch {
	case v.OnNodeLoss == api.NodeLossAssume:
		give(ledger.ProofAssumed, ledger.ByPolicy, since, "")
	case c.Lease == 0 && c.Attach:
		give(ledger.ProofFenced, ledger.ByProvider, since.Add(cmp.Or(v.FenceAfter, s.limits.FenceAfter)), "it is detached by its storage")
	case c.Lease == 0 && !claim.Exclusive(c.AccessMode, c.Mode):
		give(ledger.ProofAssumed, ledger.ByPolicy, since, "")
	case v.OnNodeLoss == api.NodeLossWait:
		tell(time.Time{}, "on_node_loss is wait: the node must come back, or an operator detach the volume with -force")
	default:
		give(ledger.ProofFenced, ledger.ByLease, s.leaseEnd(c), "the node's lease ends")
	}
	if s.limits.FenceHook != "" {
		out = append(out, option{job{
			name: "fence " + c.NodeID, do: s.hook(c), failed: s.quietly,
		}, since})
	}
	return out
}

// lostAt is since when nobody knows what happens on the node. A leader that did not see the loss has the
// second of its record, which may have been the end of that second.
func (s *Service) lostAt(n *api.Node, c *api.VolumeClaim) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.losses.notice(n, c.NodeID, s.now())
	switch at, seen := s.losses.seen[c.NodeID]; {
	case seen:
		return at
	case n == nil:
		return time.Unix(0, c.Since)
	}
	return time.Unix(n.StatusUpdatedAt+1, 0)
}

// losses knows when nodes were lost by this server's own clock: clocks of two servers are never compared.
// It is the leader's, for one term.
type losses struct {
	term time.Time
	// last is when each lost node was last heard.
	last map[string]time.Time
	// seen is when the losses of this term were seen.
	seen map[string]time.Time
	// fenced are lost nodes that the operator's hook has shut off.
	fenced map[string]bool
}

// notice takes a loss that a claim is looked at for before its change has arrived.
func (l *losses) notice(n *api.Node, id string, now time.Time) {
	if _, known := l.last[id]; known {
		return
	}
	l.last[id] = now
	if n != nil {
		l.seen[id] = now
	}
}

func (l *losses) forget(id string) {
	delete(l.last, id)
	delete(l.seen, id)
	delete(l.fenced, id)
}

// newTerm forgets what was seen in earlier terms. Nodes may have renewed their leases while there was no
// leader, so each lease counts from the beginning of the term at the earliest.
func (s *Service) newTerm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.losses = losses{term: s.now(), last: map[string]time.Time{}, seen: map[string]time.Time{}, fenced: map[string]bool{}}
}

// noteLoss remembers when a node was lost, and forgets it when it is back.
func (s *Service) noteLoss(id string, before, after *api.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !lost(after):
		s.losses.forget(id)
	case before != nil && !lost(before):
		silence := time.Duration(0)
		if after != nil {
			silence = after.Silence
		}
		s.losses.last[id] = s.now().Add(-silence)
		if _, known := s.losses.seen[id]; !known {
			s.losses.seen[id] = s.now()
		}
	}
}

// noteLosses brings what is known of all nodes up to date after changes were missed.
func (s *Service) noteLosses(tx *state.Txn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range tx.Nodes() {
		if _, known := s.losses.last[n.ID]; lost(n) && !known {
			s.losses.last[n.ID] = s.now()
		} else if !lost(n) {
			s.losses.forget(n.ID)
		}
	}
}

// clockSkew is the part of a lease that is waited for beyond it: the clocks of a node and of this server
// may each go wrong by one in a hundred.
const clockSkew = 40

// leaseEnd is when the node has certainly kept its promise.
func (s *Service) leaseEnd(c *api.VolumeClaim) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := s.losses.term
	if at := s.losses.last[c.NodeID]; at.After(from) {
		from = at
	}
	term := cmp.Or(c.Lease, ledger.LeaseDefault)
	return from.Add(term + term/clockSkew + s.limits.LeaseMargin)
}

// explain tells on the claim what it waits for; nil when that is told already.
func (s *Service) explain(c *api.VolumeClaim, at time.Time, why string) *job {
	reason := fmt.Sprintf("node %s is down: %s", c.NodeID, why)
	var next int64
	if !at.IsZero() {
		next = at.UnixNano()
	}
	if c.LastError == reason && c.NextRetry == next {
		return nil
	}
	return &job{name: "explain " + reason, failed: s.quietly, do: func(ctx context.Context) error {
		return s.record(ctx, &Report{
			Namespace: c.Namespace, VolumeID: c.VolumeID, AllocID: c.AllocID, NodeID: c.NodeID, Reason: reason, NextRetry: next,
		})
	}}
}

// giveUp ends the claim without the node's word.
func (s *Service) giveUp(c *api.VolumeClaim, proof, by string) job {
	return job{name: "give up " + c.NodeID, failed: s.quietly, do: func(ctx context.Context) error {
		err := s.record(ctx, &Evict{
			Namespace: c.Namespace, VolumeID: c.VolumeID, NodeID: c.NodeID, AllocIDs: []string{c.AllocID},
			Proof: proof, By: by, Lost: true,
		})
		if err == nil {
			s.log.Info("claim of a lost node is given up", "volume", c.VolumeID, "namespace", c.Namespace,
				"alloc", c.AllocID, "node", c.NodeID, "proof", proof, "by", by)
		}
		return err
	}}
}

// hook runs the operator's fencing program; its exit with 0 proves that the node is off.
func (s *Service) hook(c *api.VolumeClaim) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, hookTimeout)
		defer cancel()
		leave, err := s.gates.enter(ctx, "fence "+c.NodeID, 1) // one run serves all claims of the node
		if err != nil {
			return err
		}
		defer leave()
		if !s.fenced(c.NodeID) {
			if err := s.fence(ctx, c.NodeID); err != nil {
				s.log.Warn("fencing hook failed", "node", c.NodeID, "error", err)
				return err
			}
		}
		return s.giveUp(c, ledger.ProofFenced, ledger.ByHook).do(ctx)
	}
}

func (s *Service) fenced(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.losses.fenced[node]
}

func (s *Service) fence(ctx context.Context, node string) error {
	name := ""
	if n := s.state.Read().Node(node); n != nil {
		name = n.Name
	}
	out, err := exec.CommandContext(ctx, s.limits.FenceHook, node, name).CombinedOutput()
	if err != nil {
		return fault.New(fault.Unavailable, "fencing hook %s for node %s: %w: %.200s", s.limits.FenceHook, node, err, out)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.losses.fenced[node] = true
	return nil
}
