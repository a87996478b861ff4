package volumes

import (
	"context"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Timeline reads what happened to a volume, oldest first.
func (s *Service) Timeline(ctx context.Context, r *api.VolumeTimelineRequest) (*api.VolumeTimelineResponse, error) {
	if r.ID == "" {
		return nil, fault.New(fault.Invalid, "missing volume ID")
	}
	ns := namespaceOf(r.Namespace)
	out := &api.VolumeTimelineResponse{}
	keys := []state.Key{state.VolumeKey(ns, r.ID), state.TimelineKey(ns, r.ID)}
	err := rpc.Block(ctx, s.state, &r.QueryOptions, &out.QueryMeta, keys, func(tx *state.Txn) error {
		out.Known, out.Events = tx.Volume(ns, r.ID) != nil, nil
		if l := tx.Timeline(ns, r.ID); l != nil {
			out.Events = l.Events
		}
		if r.Last > 0 && len(out.Events) > r.Last {
			out.Events = out.Events[len(out.Events)-r.Last:]
		}
		return nil
	})
	return out, err
}
