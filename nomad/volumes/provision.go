package volumes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// lookCreation creates a volume whose external id is not known yet. One that is to be deleted is
// created too: only so its id, if it has one, is learned.
func (s *Service) lookCreation(ctx context.Context, k key, t tries) time.Time {
	return s.doAll(ctx, t, func() []job {
		v := s.state.Read().Volume(k.a, k.b)
		if v == nil || v.Provision.ExternalID != "" ||
			v.Provision.State != api.VolumeCreating && v.Provision.State != api.VolumeDeleting {
			return nil
		}
		return []job{s.createJob(v)}
	})
}

func (s *Service) createJob(v *api.Volume) job {
	return job{
		name: fmt.Sprintf("create %s/%s by %d", v.Namespace, v.ID, v.Provision.Intent),
		do: func(ctx context.Context) error {
			out, err := made(ctx, s, v.PluginID, wire.ControllerCreate, createRequest(v))
			if err != nil {
				return err
			}
			if out.ExternalID == "" {
				return fault.New(fault.Invalid, "the driver answered no volume id")
			}
			return s.record(ctx, &Provisioned{
				Answer: answer(v, nil), ExternalID: out.ExternalID, CapacityBytes: out.CapacityBytes,
				Context: out.Context, Topologies: known(out.Topologies),
			})
		},
		failed: s.provisionFailed(v, func(a Answer) fsm.Command { return &Provisioned{Answer: a} }),
	}
}

func createRequest(v *api.Volume) *api.ControllerCreateRequest {
	return &api.ControllerCreateRequest{
		ControllerCall: api.ControllerCall{PluginID: v.PluginID, Fence: v.Provision.Intent},
		Name:           v.Name, CapacityMinBytes: v.RequestedCapacityMin, CapacityMaxBytes: v.RequestedCapacityMax,
		Capabilities: v.RequestedCapabilities, MountOptions: v.MountOptions, Parameters: v.Parameters,
		Secrets: v.Secrets, CloneID: v.CloneID, SnapshotID: v.SnapshotID, Topologies: v.RequestedTopologies,
	}
}

// made asks a controller to make, grow or delete something, within the plugin's bound of such calls.
func made[Req, Resp any](ctx context.Context, s *Service, plugin string, m wire.Method[Req, Resp], req *Req) (*Resp, error) {
	leave, err := s.gates.enter(ctx, plugin+" make", s.limits.Making)
	if err != nil {
		return nil, err
	}
	defer leave()
	return call(ctx, s, m, plugin, s.limits.MakeTimeout, req)
}

func answer(v *api.Volume, err error) Answer {
	a := Answer{Namespace: v.Namespace, ID: v.ID, Intent: v.Provision.Intent}
	if err != nil {
		a.Reason, a.Final = err.Error(), final(err)
	}
	return a
}

// provisionFailed records an error when it is news or ends the intent, and keeps a final one for the
// caller that waits.
func (s *Service) provisionFailed(v *api.Volume, command func(Answer) fsm.Command) func(context.Context, error, try) error {
	return func(ctx context.Context, err error, _ try) error {
		a := answer(v, err)
		now := s.state.Read().Volume(v.Namespace, v.ID)
		if !a.Final && now != nil && now.Provision.LastError == a.Reason {
			return nil
		}
		if a.Final {
			s.refused(v.Provision.Intent, err)
		}
		return s.record(ctx, command(a))
	}
}

// volumeJobs are the calls that a volume with an external id needs.
func (s *Service) volumeJobs(tx *state.Txn, v *api.Volume) []job {
	switch v.Provision.State {
	case api.VolumeDeleting:
		return []job{s.deleteJob(v)}
	case api.VolumeExpanding:
		return []job{s.expandJob(tx, v)}
	}
	return s.nodeExpandJobs(tx, v)
}

func (s *Service) deleteJob(v *api.Volume) job {
	return job{
		name: fmt.Sprintf("delete %s/%s by %d", v.Namespace, v.ID, v.Provision.Intent),
		do: func(ctx context.Context) error {
			_, err := made(ctx, s, v.PluginID, wire.ControllerDelete, &api.ControllerDeleteRequest{
				ControllerCall: api.ControllerCall{PluginID: v.PluginID, Fence: v.Provision.Intent},
				ExternalID:     v.RemoteID(), Name: v.Name, Secrets: v.Secrets,
			})
			if err != nil {
				return err
			}
			return s.record(ctx, &EndDelete{Answer: answer(v, nil)})
		},
		failed: s.provisionFailed(v, func(a Answer) fsm.Command { return &EndDelete{Answer: a} }),
	}
}

func (s *Service) expandJob(tx *state.Txn, v *api.Volume) job {
	capability := v.RequestedCapabilities[0]
	for c := range tx.ClaimsByVolume(v.Namespace, v.ID) {
		if claim.Live(c.State) {
			capability = &api.VolumeCapability{AccessMode: c.AccessMode, AttachmentMode: c.AttachmentMode}
			break
		}
	}
	return job{
		name: fmt.Sprintf("expand %s/%s by %d", v.Namespace, v.ID, v.Provision.Intent),
		do: func(ctx context.Context) error {
			if err := growable(s.state.Read(), v); err != nil {
				return err
			}
			out, err := made(ctx, s, v.PluginID, wire.ControllerExpand, &api.ControllerExpandRequest{
				ControllerCall: api.ControllerCall{PluginID: v.PluginID, Fence: v.Provision.Intent},
				ExternalID:     v.RemoteID(), CapacityMinBytes: v.RequestedCapacityMin, CapacityMaxBytes: v.RequestedCapacityMax,
				Capability: capability, MountOptions: v.MountOptions, Secrets: v.Secrets,
			})
			if err != nil {
				return err
			}
			return s.record(ctx, &EndExpand{Answer: answer(v, nil), CapacityBytes: out.CapacityBytes, NodesOwe: out.NodeExpansionRequired})
		},
		failed: s.provisionFailed(v, func(a Answer) fsm.Command { return &EndExpand{Answer: a} }),
	}
}

// nodeExpandJobs has nodes grow what they have staged, once for each node.
func (s *Service) nodeExpandJobs(tx *state.Txn, v *api.Volume) []job {
	staged := map[string]bool{}
	var order []string
	for c := range tx.ClaimsByExternal(v.PluginID, v.RemoteID()) {
		if claim.Live(c.State) && c.State != api.ClaimTaken && !staged[c.NodeID] {
			order = append(order, c.NodeID)
		}
		staged[c.NodeID] = staged[c.NodeID] || claim.Live(c.State)
	}
	var jobs []job
	for _, node := range v.Provision.NodeExpansion {
		switch {
		case node == anyNode && len(order) > 0:
			jobs = append(jobs, s.nodeExpandJob(v, order[0]))
		case slices.Contains(order, node):
			jobs = append(jobs, s.nodeExpandJob(v, node))
		case node != anyNode && !staged[node]:
			jobs = append(jobs, s.awayJob(v, node))
		}
	}
	return jobs
}

func (s *Service) nodeExpandJob(v *api.Volume, node string) job {
	return job{
		name: fmt.Sprintf("expand %s/%s on node %s to %d", v.Namespace, v.ID, node, v.Provision.CapacityBytes),
		do: func(ctx context.Context) error {
			_, err := callNode(ctx, s, wire.NodeVolumeExpand, node, s.limits.AttachTimeout, &api.NodeVolumeExpandRequest{
				Namespace: v.Namespace, VolumeID: v.ID, ExternalID: v.RemoteID(), PluginID: v.PluginID,
				CapacityBytes: v.Provision.CapacityBytes,
			})
			done := &NodeExpanded{Namespace: v.Namespace, ID: v.ID, NodeID: node}
			if errors.Is(err, fault.Conflict) || errors.Is(err, fault.Unimplemented) {
				done.Reason = fmt.Sprintf("expand on node %s: %v", node, err) // asking again would not help
			} else if err != nil {
				return err
			}
			return s.record(ctx, done)
		},
		failed: s.quietly,
	}
}

func (s *Service) awayJob(v *api.Volume, node string) job {
	return job{
		name: fmt.Sprintf("expand %s/%s later than on node %s", v.Namespace, v.ID, node),
		do: func(ctx context.Context) error {
			return s.record(ctx, &NodeExpanded{Namespace: v.Namespace, ID: v.ID, NodeID: node, Away: true})
		},
		failed: s.quietly,
	}
}

// quietly leaves a failure to the log: the volume works, and the call is repeated.
func (s *Service) quietly(context.Context, error, try) error { return nil }

// refused keeps a final answer until the caller that waits for the intent has seen it.
func (s *Service) refused(intent uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refusals) > 1000 {
		clear(s.refusals) // nobody asked for them; the rows say the same
	}
	s.refusals[intent] = err
}

func (s *Service) refusal(intent uint64, reason string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refusals[intent]; err != nil {
		delete(s.refusals, intent)
		return err
	}
	return fault.New(fault.Conflict, "%s", reason)
}

// await waits until the intent is answered. While its calls fail it waits for Patience, then it answers
// the last error: the leader goes on trying.
func (s *Service) await(ctx context.Context, ns, id string, intent uint64, during api.VolumeState) (*api.Volume, error) {
	keys := []state.Key{state.VolumeKey(ns, id)}
	var v *api.Volume
	open := func() bool {
		return v != nil && v.Provision.State == during && v.Provision.Intent == intent
	}
	err := state.Until(ctx, s.state, keys, func(tx *state.Txn) bool {
		v = tx.Volume(ns, id)
		return !open() || v.Provision.LastError != ""
	})
	if err == nil && open() {
		patient, cancel := context.WithTimeout(ctx, s.limits.Patience)
		defer cancel()
		_ = state.Until(patient, s.state, keys, func(tx *state.Txn) bool {
			v = tx.Volume(ns, id)
			return !open()
		})
		err = ctx.Err()
	}
	switch {
	case err != nil:
		return nil, fault.New(fault.Timeout, "volume %q is still %s: %w", id, during, err)
	case open():
		return nil, fault.New(fault.Unavailable, "volume %q is still %s, which is repeated until the driver answers: %s", id, during, v.Provision.LastError)
	}
	return v, nil
}
