package volumes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/mask"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// Claim waits until an allocation's claim is ready and returns what its node needs to mount. It writes nothing and may
// be repeated. If the caller requests the reasons of the wait, Claim also returns at each new reason.
func (s *Service) Claim(ctx context.Context, r *api.VolumeClaimRequest) (*api.VolumeClaimResponse, error) {
	ns := namespaceOf(r.Namespace)
	keys := []state.Key{state.VolumeClaimsKey(ns, r.VolumeID), state.TableKey(state.TableCluster)}
	if c := s.state.Read().Claim(ns, r.VolumeID, r.AllocID, r.Use); c != nil {
		keys = append(keys, state.AttachmentsKey(c.PluginID, c.ExternalID))
	}
	if v := s.state.Read().Volume(ns, r.VolumeID); v != nil && v.SecretsFrom != "" {
		keys = append(keys, state.VariableKey(ns, v.SecretsFrom))
	}
	var out *api.VolumeClaimResponse
	var refused error
	var reason string
	err := state.Until(ctx, s.state, keys, func(tx *state.Txn) bool {
		out, refused = s.granted(tx, ns, r)
		if out != nil || refused != nil && !(r.Tell && errors.Is(refused, errUnreadable)) {
			return true
		}
		if reason = waitsFor(tx, ns, r); refused != nil {
			reason, refused = refused.Error(), nil
		}
		if r.Tell && reason != r.Known {
			out = &api.VolumeClaimResponse{Waiting: reason, WriteMeta: api.WriteMeta{Index: tx.Index()}}
		}
		return out != nil
	})
	if err != nil {
		return nil, fmt.Errorf("claim volume %q: %s: %w", r.VolumeID, reason, err)
	}
	return out, refused
}

// granted returns nothing while the claim must wait.
func (s *Service) granted(tx *state.Txn, ns string, r *api.VolumeClaimRequest) (*api.VolumeClaimResponse, error) {
	c := tx.Claim(ns, r.VolumeID, r.AllocID, r.Use)
	switch {
	case c == nil:
		return nil, fault.New(fault.NotFound, "allocation %s has no claim on volume %q", r.AllocID, r.VolumeID)
	case c.NodeID != r.NodeID:
		return nil, fault.New(fault.Denied, "the claim of allocation %s is on node %s, not on %s", r.AllocID, c.NodeID, r.NodeID)
	case claim.Leaving(c.State):
		return nil, fault.New(fault.Conflict, "the claim of allocation %s on volume %q is %s", r.AllocID, r.VolumeID, c.State)
	case c.State == api.ClaimTaken:
		if err := s.blocked(tx, c); err != nil {
			return nil, err
		}
		return nil, unattachable(tx, c)
	case c.State != api.ClaimReady || ledger.ClaimHeld(tx, c):
		return nil, nil
	}
	v := ledger.SpecOf(tx, c)
	if v == nil {
		return nil, commands.Missing(ns, r.VolumeID)
	}
	given, err := s.opened(v)
	if err != nil {
		return nil, unreadable{err}
	}
	out := &api.VolumeClaimResponse{Volume: given, Claim: c, WriteMeta: api.WriteMeta{Index: c.ModifyIndex}}
	if a := tx.Attachment(c.PluginID, c.ExternalID, c.NodeID); a != nil {
		out.PublishContext = a.PublishContext
	}
	out.NodeExpand = slices.ContainsFunc(v.Provision.NodeExpansion, func(n string) bool { return n == c.NodeID || n == commands.AnyNode })
	return out, nil
}

// staleWait is how long an allocation waits for a node to unmount what it has of an evicted claim. The node tries by
// itself for less; after it the allocation is better placed elsewhere.
const staleWait = 5 * time.Minute

// blocked is why a claim has waited too long for its node, if it has.
func (s *Service) blocked(tx *state.Txn, c *api.VolumeClaim) error {
	m, why := ledger.StaleFor(tx, c)
	if m == nil || s.now().Sub(time.Unix(0, max(c.Since, m.Since))).Abs() < staleWait { // far ahead is a clock that was fast
		return nil
	}
	return fault.New(fault.Conflict, "%s; the allocation has waited for %s", why, staleWait)
}

// unattachable returns the driver's final error of the attach that a claim waits for, if there is one.
func unattachable(tx *state.Txn, c *api.VolumeClaim) error {
	a := tx.Attachment(c.PluginID, c.ExternalID, c.NodeID)
	if a == nil || a.State != api.AttachmentPublishing || a.Refused == 0 {
		return nil
	}
	return fault.New(fault.Class(a.Refused), "volume %q: %s", c.VolumeID, a.LastError)
}

// Unpublish takes a node's report on an unmount. A repeated report gets the same reply.
func (s *Service) Unpublish(ctx context.Context, r *api.VolumeUnpublishRequest) (*api.WriteMeta, error) {
	ns := namespaceOf(r.Namespace)
	// A restarted node does not know which secrets its drivers quote.
	report := *r
	report.Error = mask.Text(r.Error, s.secrets.Plain(append(s.volumeSecrets(ns, r.VolumeID), s.claimSecrets(holdOf(r))...)...)...)
	return s.reported(ctx, ns, &report)
}

func (s *Service) reported(ctx context.Context, ns string, r *api.VolumeUnpublishRequest) (*api.WriteMeta, error) {
	c := s.state.Read().Claim(ns, r.VolumeID, r.AllocID, r.Use)
	if saidBefore(s.state.Read(), c, r) {
		return &api.WriteMeta{Index: s.state.Read().TableIndex(state.TableClaims)}, nil
	}
	report := &commands.Report{Namespace: ns, VolumeID: r.VolumeID, AllocID: r.AllocID, Use: r.Use, NodeID: r.NodeID, Reason: r.Error, NextRetry: r.NextRetry, Mounting: r.Mounting, WriteBack: measured(r.WriteBack)}
	if r.Mounting && r.NoRoom {
		report.LimitExpiry = s.now().Add(s.limitExpiry).UnixNano()
	}
	index, err := s.write(ctx, report)
	if errors.Is(err, fault.NotFound) || errors.Is(err, fault.Conflict) {
		return &api.WriteMeta{Index: s.state.Read().TableIndex(state.TableClaims)}, nil // reported before
	}
	if err != nil {
		return nil, fmt.Errorf("report on volume %q of allocation %s: %w", r.VolumeID, r.AllocID, err)
	}
	return &api.WriteMeta{Index: index}, nil
}

// measured leaves out what is no news: most volumes are unmounted within a second.
func measured(took time.Duration) int64 {
	if took < time.Second {
		return 0
	}
	return int64(took)
}

func holdOf(r *api.VolumeUnpublishRequest) ledger.Hold {
	return ledger.Hold{Namespace: namespaceOf(r.Namespace), VolumeID: r.VolumeID, AllocID: r.AllocID, Use: r.Use, NodeID: r.NodeID}
}

// saidBefore reports whether the rows show already what the node reports.
func saidBefore(tx *state.Txn, c *api.VolumeClaim, r *api.VolumeUnpublishRequest) bool {
	if m := ledger.StaleMount(tx, holdOf(r)); m != nil && (c == nil || c.Presumed) {
		return r.Mounting || r.Error != "" && r.Error == m.LastError
	}
	switch {
	case c == nil:
		return true
	case r.Error != "" || r.Mounting:
		return c.LastError == r.Error && c.NextRetry == r.NextRetry
	}
	return c.NodeID == r.NodeID && c.State == api.ClaimUnmounted && !c.Presumed
}
