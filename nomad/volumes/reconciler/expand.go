package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/pluginview"
)

// volumeOps are the calls that the specs of an external volume need, in the order of their intents.
func (r *Reconciler) volumeOps(tx *state.Txn, plugin, external string) (ops []operation) {
	specs := slices.SortedStableFunc(tx.VolumesByExternal(plugin, external), func(a, b *api.Volume) int {
		return int(a.Provision.Intent) - int(b.Provision.Intent)
	})
	for _, v := range specs {
		//exhaustive:enforce
		switch v.Provision.State {
		case api.VolumeAvailable, api.VolumeFailed:
		case api.VolumeCreating: // has no external volume yet
		case api.VolumeDeleting:
			ops = append(ops, r.deleteOperation(v))
		case api.VolumeExpanding:
			ops = append(ops, r.expandOperation(tx, v))
		}
	}
	for _, v := range specs {
		if len(v.Provision.NodeExpansion) > 0 && v.Provision.State == api.VolumeAvailable {
			return append(ops, r.nodeExpandOps(tx, v)...) // all specs owe the same
		}
	}
	return ops
}

func (r *Reconciler) expandOperation(tx *state.Txn, v *api.Volume) operation {
	return operation{
		name: fmt.Sprintf("expand %s/%s by %d", v.Namespace, v.ID, v.Provision.Intent),
		do: func(ctx context.Context, t try) error {
			patient, done := r.giveWay(ctx, v.PluginID, v.RemoteID())
			defer done()
			out, err := r.expand(patient, v, usedAs(tx, v), t)
			if err != nil {
				return err
			}
			return r.record(ctx, &commands.EndExpand{Answer: answer(v), CapacityBytes: out.CapacityBytes, NodesOwe: out.NodeExpansionRequired})
		},
		failed: func(ctx context.Context, f failure, t try) error {
			a := r.failure(v, f, t)
			switch {
			case f.ends(t):
				return r.expandEnded(ctx, v, f, a)
			case !t.shows(v.Provision.LastError, f) && a.Uncertain == v.Provision.Uncertain:
				return nil
			}
			return r.record(ctx, &commands.EndExpand{Answer: a})
		},
	}
}

// expandEnded ends an expansion that has no point any more. A call whose reply was lost may have grown the volume all
// the same: the provider is asked for the size, and where it does not report it the row records that the size is
// unknown.
func (r *Reconciler) expandEnded(ctx context.Context, v *api.Volume, f failure, a commands.Answer) error {
	end := &commands.EndExpand{Answer: a}
	end.Answer.Final = true
	if a.Uncertain {
		tx, least := r.state.Read(), max(v.RequestedCapacityMin, v.Provision.CapacityBytes)
		known, err := r.verifyVolume(ctx, v, v.RemoteID(), secretsOf(tx, v.PluginID, v.RemoteID()))
		switch {
		case err != nil || known.CapacityBytes <= 0:
			f.err = fmt.Errorf("%w (an earlier call, whose reply was lost, may have grown the volume to %d bytes; the plugin does not report its size)", f.err, least)
			end.Answer.Reason = f.err.Error()
		case known.CapacityBytes >= least:
			end.Answer = answer(v)
			fallthrough
		default:
			end.CapacityBytes = known.CapacityBytes
			end.NodesOwe = pluginview.NodesExpand(tx, v.PluginID) && (v.Provision.NotGrown || known.CapacityBytes > v.Provision.CapacityBytes)
		}
	}
	if end.Answer.Final {
		r.refused(requestOf(v), f.err)
	}
	return r.record(ctx, end)
}

// usedAs is the capability that the volume is used with now, else the first that it may be used with.
func usedAs(tx *state.Txn, v *api.Volume) *api.VolumeCapability {
	for c := range tx.ClaimsByExternal(v.PluginID, v.RemoteID()) {
		if claim.Live(c.State) {
			return &api.VolumeCapability{AccessMode: c.AccessMode, AttachmentMode: c.AttachmentMode}
		}
	}
	return v.RequestedCapabilities[0]
}

func (r *Reconciler) expand(ctx context.Context, v *api.Volume, as *api.VolumeCapability, t try) (out *api.ControllerExpandResponse, err error) {
	tx := r.state.Read()
	if nodesOnly, err := pluginview.ExpandsOnNodesOnly(tx, v.PluginID); err != nil {
		return nil, err
	} else if nodesOnly {
		return &api.ControllerExpandResponse{CapacityBytes: max(v.RequestedCapacityMin, v.Provision.CapacityBytes), NodeExpansionRequired: true}, nil
	}
	if err := commands.Expandable(tx, v); err != nil {
		return nil, &ourRefusal{err}
	}
	least := max(v.RequestedCapacityMin, v.Provision.CapacityBytes)
	_, err = r.withSecrets(named(v), secretsOf(tx, v.PluginID, v.RemoteID()), func(secrets map[string]string) (err error) {
		out, err = call(ctx, r, wire.ControllerExpand, r.making(v.PluginID, v.RemoteID(), pluginview.Expand, t), &api.ControllerExpandRequest{
			ControllerCall: api.ControllerCall{PluginID: v.PluginID, Fence: v.Provision.Intent, Provider: v.Provision.Provider},
			ExternalID:     v.RemoteID(), CapacityMinBytes: least, CapacityMaxBytes: v.RequestedCapacityMax,
			Capability: as, MountOptions: v.MountOptions, Secrets: secrets,
		})
		return err
	})
	if err == nil && out.CapacityBytes < least {
		err = &lostAnswer{fault.New(fault.Internal, "%w: %d bytes after an expansion to %d", errNonsense, out.CapacityBytes, least)}
	}
	return out, err
}

// nodeExpandOps has nodes grow what they have staged, once for each node.
func (r *Reconciler) nodeExpandOps(tx *state.Txn, v *api.Volume) []operation {
	staged := map[string]bool{}
	var order []string
	for c := range tx.ClaimsByExternal(v.PluginID, v.RemoteID()) {
		if claim.Live(c.State) && c.State != api.ClaimTaken && !staged[c.NodeID] {
			order = append(order, c.NodeID)
		}
		staged[c.NodeID] = staged[c.NodeID] || claim.Live(c.State)
	}
	var ops []operation
	for _, node := range v.Provision.NodeExpansion {
		switch {
		case node == commands.AnyNode && len(order) > 0:
			ops = append(ops, r.nodeExpandOperation(v, order[0], tx.Index()))
		case slices.Contains(order, node):
			ops = append(ops, r.nodeExpandOperation(v, node, tx.Index()))
		case node != commands.AnyNode && !staged[node]:
			ops = append(ops, r.awayOperation(v, node, tx.Index()))
		}
	}
	return ops
}

// nodeExpandOperation asks a node until it has expanded the volume or its driver will not; then that is shown,
// and the node owes nothing any more.
func (r *Reconciler) nodeExpandOperation(v *api.Volume, node string, seen uint64) operation {
	note := func(f failure) *commands.NodeExpanded {
		return &commands.NodeExpanded{Namespace: v.Namespace, ID: v.ID, NodeID: node, Seen: seen, Reason: fmt.Sprintf("expand on node %s: %v", node, f.err)}
	}
	return operation{
		name: fmt.Sprintf("expand %s/%s on node %s to %d", v.Namespace, v.ID, node, v.Provision.CapacityBytes),
		do: func(ctx context.Context, _ try) error {
			_, err := r.withSecrets(named(v), secretsOf(r.state.Read(), v.PluginID, v.RemoteID()), func(secrets map[string]string) error {
				_, err := callNode(ctx, r, wire.NodeVolumeExpand, flight{node: node}, r.limits.AttachTimeout, &api.NodeVolumeExpandRequest{
					Namespace: v.Namespace, VolumeID: v.ID, ExternalID: v.RemoteID(), PluginID: v.PluginID,
					CapacityBytes: v.Provision.CapacityBytes, Secrets: secrets,
				})
				return err
			})
			if err != nil {
				return err
			}
			return r.record(ctx, &commands.NodeExpanded{Namespace: v.Namespace, ID: v.ID, NodeID: node, Seen: seen})
		},
		failed: func(ctx context.Context, f failure, t try) error {
			said := note(f)
			switch {
			case f.ends(t), f.verdict() == fault.VerdictChanged && t.alike >= few:
			case !t.news, f.call == nil && errors.Is(f.err, fault.NotFound): // not mounted yet: the node expands what it mounts
				return nil
			default:
				said.Again = true
			}
			return r.record(ctx, said)
		},
	}
}

func (r *Reconciler) awayOperation(v *api.Volume, node string, seen uint64) operation {
	return operation{
		name: fmt.Sprintf("expand %s/%s later than on node %s", v.Namespace, v.ID, node),
		do: func(ctx context.Context, _ try) error {
			return r.record(ctx, &commands.NodeExpanded{Namespace: v.Namespace, ID: v.ID, NodeID: node, Away: true, Seen: seen})
		},
		failed: r.quietly,
	}
}
