package volumes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/commandtext"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// forceWait bounds asking a node to unmount what its plugin cannot, forceAgain asking one that did not respond
// recently.
const (
	forceWait  = 15 * time.Second
	forceAgain = time.Second
	lately     = 10 * time.Minute
)

// silence records which nodes did not complete a forced unmount in time, so that no request waits for that twice.
// Nodes are recorded per plugin: a frozen driver proves nothing about the others.
type silence struct {
	mu    sync.Mutex
	since map[[2]string]time.Time
}

// wait is how long to wait for the node now.
func (s *silence) wait(node [2]string, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, silent := s.since[node]; silent && now.Sub(at) < lately {
		return forceAgain
	}
	return forceWait
}

// note remembers whether the node was silent.
func (s *silence) note(node [2]string, silent bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.since, node)
	for n, at := range s.since {
		if now.Sub(at) >= lately {
			delete(s.since, n)
		}
	}
	if silent {
		if s.since == nil {
			s.since = map[[2]string]time.Time{}
		}
		s.since[node] = now
	}
}

// detachByForce ends claims that are in use by an operator override, and then their attachment: the node unmounts and
// the driver detaches if they can; an attachment that the driver keeps is written off. A claim that a responding node
// still has mounted stays, and the reply reports that: a second request writes it off all the same.
func (s *Service) detachByForce(ctx context.Context, w *commands.WriteOff, r *api.VolumeDetachRequest, used []*api.VolumeClaim) (*api.VolumeDetachResponse, error) {
	index, err := s.evict(ctx, r, used, ledger.ProofAssumed, byOperator(r))
	if err != nil {
		return nil, err
	}
	s.unmountByForce(ctx, used)
	tx, ended := s.ended(ctx, w, used)
	if ended {
		out := detached(index)
		out.Warnings = stillMounted(tx, w)
		return out, nil
	}
	if err := otherSpec(tx, w, r); err != nil {
		return nil, err
	}
	again := commandtext.DetachByForce(namespaceOf(r.Namespace), r.VolumeID, ledger.ShortNode(tx, r.NodeID))
	a := tx.Attachment(w.PluginID, w.ExternalID, w.NodeID)
	switch mounted := staleOn(tx, w); {
	case len(mounted) > 0 && !ledger.Away(tx.Node(w.NodeID)):
		return nil, fault.New(fault.Conflict, "volume %q is not free: node %s still has it mounted for allocation %s; `%s` frees it nevertheless",
			r.VolumeID, ledger.Short(w.NodeID), ledger.Short(mounted[0].AllocID), again)
	case a == nil || a.State != api.AttachmentUnpublishing:
		return nil, fault.New(fault.Conflict, "volume %q is used on node %s again; `%s` detaches it", r.VolumeID, ledger.Short(w.NodeID), again)
	}
	return s.writeOff(ctx, tx, w)
}

// ended waits until the claims are removed, and as long as their driver may detach: until it fails for the first time.
// It returns the state after that, and whether the claims are removed.
func (s *Service) ended(ctx context.Context, w *commands.WriteOff, claims []*api.VolumeClaim) (tx *state.Txn, gone bool) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	keys := []state.Key{state.VolumeClaimsKey(claims[0].Namespace, claims[0].VolumeID), state.AttachmentsKey(w.PluginID, w.ExternalID)}
	look := func(now *state.Txn) bool {
		tx = now
		gone = !slices.ContainsFunc(claims, func(c *api.VolumeClaim) bool { return now.Claim(c.Namespace, c.VolumeID, c.AllocID, c.Use) != nil })
		a := now.Attachment(w.PluginID, w.ExternalID, w.NodeID)
		return gone || a == nil || a.State != api.AttachmentUnpublishing || a.LastError != ""
	}
	_ = state.Until(ctx, s.state, keys, look) // what is there after the timeout is evaluated below
	look(s.state.Read())
	return tx, gone
}

// stillMounted returns that the node may still have the volume mounted, which is free for others; "" when it has not.
func stillMounted(tx *state.Txn, w *commands.WriteOff) string {
	mounted := staleOn(tx, w)
	switch n := tx.Node(w.NodeID); {
	case len(mounted) == 0:
		return ""
	case ledger.Away(n):
		return fmt.Sprintf("Node %s is %s and may still have the volume mounted. It unmounts when it is back.", ledger.Short(w.NodeID), n.Status)
	}
	return fmt.Sprintf("The volume is free, but node %s still has it mounted for allocation %s and may write to it until it has unmounted it: see \"nomad volume attachments -node %s\".",
		ledger.Short(w.NodeID), ledger.Short(mounted[0].AllocID), ledger.Short(w.NodeID))
}

// usedOn are the claims on the node that may have the external volume mounted.
func usedOn(tx *state.Txn, w *commands.WriteOff) []*api.VolumeClaim {
	return slices.DeleteFunc(slices.Collect(tx.ClaimsByExternal(w.PluginID, w.ExternalID)), func(c *api.VolumeClaim) bool {
		return c.NodeID != w.NodeID || c.State != api.ClaimReady && c.State != api.ClaimReleasing
	})
}

// unmountByForce asks a node that is heard to unmount what is left of ended allocations, with or without its plugin. The
// operator override is effective already; a report of the node proves more, and nothing stays mounted.
func (s *Service) unmountByForce(ctx context.Context, held []*api.VolumeClaim) {
	if len(held) == 0 {
		return
	}
	node := [2]string{held[0].NodeID, held[0].PluginID}
	ctx, cancel := context.WithTimeout(ctx, s.silent.wait(node, s.now()))
	defer cancel()
	defer func() { s.silent.note(node, errors.Is(ctx.Err(), context.DeadlineExceeded), s.now()) }()
	for _, c := range held {
		tx := s.state.Read()
		if a := tx.Alloc(c.AllocID); a != nil && !a.Terminal() || ledger.Lost(tx.Node(c.NodeID)) {
			continue
		}
		err := s.drivers.Unmount(ctx, c, true)
		if err == nil {
			_, err = s.write(ctx, &commands.Report{Namespace: c.Namespace, VolumeID: c.VolumeID, AllocID: c.AllocID, Use: c.Use, NodeID: c.NodeID})
		}
		if err != nil {
			s.log.Warn("a volume that was detached by force may still be mounted", "volume", c.VolumeID, "namespace", c.Namespace,
				"alloc", c.AllocID, "node", c.NodeID, "error", err)
		}
	}
}

// staleOn are the stale mounts of an external volume on a node, as claims as far as unmounting goes.
func staleOn(tx *state.Txn, w *commands.WriteOff) (held []*api.VolumeClaim) {
	n := tx.Node(w.NodeID)
	if n == nil {
		return nil
	}
	for _, m := range n.StaleMounts {
		if m.PluginID == w.PluginID && m.ExternalID == w.ExternalID {
			held = append(held, &api.VolumeClaim{
				Namespace: m.Namespace, VolumeID: m.VolumeID, AllocID: m.AllocID, Use: m.Use, NodeID: n.ID, PluginID: m.PluginID, ExternalID: m.ExternalID, Since: m.Since,
			})
		}
	}
	return held
}
