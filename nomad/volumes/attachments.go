package volumes

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commandtext"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// staleMount is the state, in lists, of a mount whose claim was evicted.
const staleMount = "stale mount"

// Attachments lists what is attached to nodes, and mounts of evicted claims, each with the command that ends it.
// Neither belongs to a namespace; a volume that is asked for does.
func (s *Service) Attachments(ctx context.Context, r *api.VolumeAttachmentListRequest) (*api.VolumeAttachmentListResponse, error) {
	out := &api.VolumeAttachmentListResponse{}
	keys := tables(state.TableAttachments, state.TableNodes, state.TableClaims, state.TableVolumes)
	q := r.QueryOptions
	q.Prefix = ""
	hidden := map[*api.AttachmentStub]bool{}
	var err error
	out.Attachments, err = page.Read(ctx, s.state, &q, &out.QueryMeta, keys, func(tx *state.Txn) page.List[*api.AttachmentStub, *api.AttachmentStub] {
		token := func(a *api.AttachmentStub) string {
			return strings.Join([]string{a.NodeID, a.PluginID, a.ExternalID, a.AllocID}, " ")
		}
		sees := func(ns string) bool { return access.Sees(ctx, ns) }
		rows := slices.DeleteFunc(attachmentRows(tx, r, sees, hidden), func(a *api.AttachmentStub) bool { return !seesAttachment(ctx, a) })
		return page.Stored(page.Sorted(rows, token), token)
	})
	for _, a := range out.Attachments {
		if hidden[a] {
			a.AllocID = "" // only now: it is a part of the token
		}
	}
	return out, err
}

// attachmentRows lists the rows of a request, and notes those whose allocation the caller does not see.
func attachmentRows(tx *state.Txn, r *api.VolumeAttachmentListRequest, sees func(ns string) bool, hidden map[*api.AttachmentStub]bool) []*api.AttachmentStub {
	var rows []*api.AttachmentStub
	for a := range attachmentsOf(tx, r.NodeID) {
		rows = append(rows, attachmentStub(tx, a, sees))
	}
	for a := range tx.WrittenOff() {
		if r.NodeID == "" || r.NodeID == a.NodeID {
			rows = append(rows, attachmentStub(tx, a, sees))
		}
	}
	for n := range nodesOf(tx, r.NodeID) {
		for _, m := range n.StaleMounts {
			s := staleStub(tx, n, m)
			hidden[s] = !sees(m.Namespace)
			rows = append(rows, s)
		}
	}
	return slices.DeleteFunc(rows, func(a *api.AttachmentStub) bool { return !asked(tx, r, a) })
}

func attachmentsOf(tx *state.Txn, node string) func(func(*api.VolumeAttachment) bool) {
	if node == "" {
		return tx.Attachments()
	}
	return tx.AttachmentsByNode(node)
}

func nodesOf(tx *state.Txn, node string) func(func(*api.Node) bool) {
	if node == "" {
		return tx.Nodes()
	}
	return func(yield func(*api.Node) bool) {
		if n := tx.Node(node); n != nil {
			yield(n)
		}
	}
}

// asked reports whether the row is of the plugin and of the volume that were asked for.
func asked(tx *state.Txn, r *api.VolumeAttachmentListRequest, a *api.AttachmentStub) bool {
	if r.PluginID != "" && r.PluginID != a.PluginID {
		return false
	}
	if r.VolumeID == "" {
		return true
	}
	ns := namespaceOf(r.Namespace)
	if a.VolumeID == r.VolumeID && a.Namespace == ns {
		return true
	}
	v := tx.Volume(ns, r.VolumeID)
	return v != nil && v.PluginID == a.PluginID && v.RemoteID() == a.ExternalID
}

// attachmentStub is the row of an attachment. Its remedy is empty when only users in namespaces that the caller does not
// see have the volume there.
func attachmentStub(tx *state.Txn, a *api.VolumeAttachment, sees func(ns string) bool) *api.AttachmentStub {
	s := withNames(tx, &api.AttachmentStub{
		PluginID: a.PluginID, ExternalID: a.ExternalID, NodeID: a.NodeID, State: string(a.State), Since: a.Since,
		LastError: a.LastError, NextRetry: a.NextRetry, Attempts: a.Attempts,
	})
	var held []*api.VolumeClaim
	for c := range tx.ClaimsByExternal(a.PluginID, a.ExternalID) {
		if c.NodeID == a.NodeID && c.State != api.ClaimWaiting && c.State != api.ClaimUnmounted && !ledger.Begins(tx, c) {
			held = append(held, c)
		}
	}
	s.Claims = len(held)
	seen := slices.DeleteFunc(held, func(c *api.VolumeClaim) bool { return !sees(c.Namespace) })
	if s.Claims == 0 || len(seen) > 0 {
		s.Remedy = remedied(tx, s, seen)
	}
	return s
}

func staleStub(tx *state.Txn, n *api.Node, m *api.StaleMount) *api.AttachmentStub {
	s := withNames(tx, &api.AttachmentStub{
		PluginID: m.PluginID, ExternalID: m.ExternalID, NodeID: n.ID, AllocID: m.AllocID,
		State: staleMount, Since: m.Since, LastError: m.LastError,
	})
	s.Remedy = remedied(tx, s, nil)
	return s
}

// withNames adds the names of the node and of a spec.
func withNames(tx *state.Txn, s *api.AttachmentStub) *api.AttachmentStub {
	if n := tx.Node(s.NodeID); n != nil {
		s.NodeName = n.Name
	}
	for v := range tx.VolumesByExternal(s.PluginID, s.ExternalID) {
		if s.VolumeID == "" || cmp.Or(cmp.Compare(v.Namespace, s.Namespace), cmp.Compare(v.ID, s.VolumeID)) < 0 {
			s.Namespace, s.VolumeID = v.Namespace, v.ID
		}
	}
	return s
}

// remedied returns the command that ends an attachment or a stale mount: it stops the allocations that use it, else
// asks the node to unmount it, else, when it should already be removed, accepts the operator's assertion.
func remedied(tx *state.Txn, s *api.AttachmentStub, held []*api.VolumeClaim) string {
	if len(held) > 0 {
		worst := held[0]
		if i := slices.IndexFunc(held, func(c *api.VolumeClaim) bool { return ledger.Runs(tx, c) }); i >= 0 {
			worst = held[i]
		}
		return ledger.Remedy(tx, worst)
	}
	if s.VolumeID == "" {
		return commandtext.DetachExternal(s.PluginID, s.ExternalID, s.NodeID)
	}
	return commandtext.DetachByForce(s.Namespace, s.VolumeID, s.NodeID)
}
