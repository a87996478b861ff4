package volumes

import (
	"context"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/nomad/volumes/pluginview"
)

// List lists volumes by namespace and id, optionally of one plugin or used on one node.
func (s *Service) List(ctx context.Context, r *api.VolumeListRequest) (*api.VolumeListResponse, error) {
	out := &api.VolumeListResponse{}
	keys := tables(state.TableVolumes, state.TableClaims, state.TableNodes, state.TableJobs)
	var err error
	out.Volumes, err = page.Read(ctx, s.state, &r.QueryOptions, &out.QueryMeta, keys, func(tx *state.Txn) page.List[*api.Volume, *api.VolumeStub] {
		plugins := map[string]*api.Plugin{}
		row := func(v *api.Volume) *api.VolumeStub {
			p, known := plugins[v.PluginID]
			if !known {
				p = pluginview.Of(tx, v.PluginID)
				plugins[v.PluginID] = p
			}
			return stub(tx, v, p)
		}
		used := onNode(tx, r.NodeID)
		return page.List[*api.Volume, *api.VolumeStub]{
			Walk:  tx.VolumeSpan,
			Token: func(v *api.Volume) string { return state.PathToken(v.Namespace, v.ID) },
			Keep: func(v *api.Volume) bool {
				return (r.NodeID == "" || used[v]) && (r.PluginID == "" || v.PluginID == r.PluginID)
			},
			View: func(v *api.Volume) any { return row(v) },
			Row:  row,
		}
	})
	return out, err
}

func tables(names ...string) []state.Key {
	var keys []state.Key
	for _, n := range names {
		keys = append(keys, state.TableKey(n))
	}
	return keys
}

// onNode are the volumes that have a claim on the node.
func onNode(tx *state.Txn, node string) map[*api.Volume]bool {
	used := map[*api.Volume]bool{}
	for c := range tx.ClaimsByNode(node) {
		if v := ledger.SpecOf(tx, c); v != nil {
			used[v] = true
		}
	}
	return used
}

// Get reads one volume.
func (s *Service) Get(ctx context.Context, r *api.VolumeGetRequest) (*api.VolumeGetResponse, error) {
	if r.ID == "" {
		return nil, fault.New(fault.Invalid, "missing volume ID")
	}
	ns := namespaceOf(r.Namespace)
	out := &api.VolumeGetResponse{}
	err := rpc.Block(ctx, s.state, &r.QueryOptions, &out.QueryMeta, s.detailKeys(ns, r.ID), func(tx *state.Txn) error {
		out.Volume = nil
		if v := tx.Volume(ns, r.ID); v != nil {
			out.Volume = detail(tx, v)
		}
		return nil
	})
	return out, err
}

// detailKeys is all that a volume's details follow from. Who claims it may change while a query
// blocks; that wakes it too.
func (s *Service) detailKeys(ns, id string) []state.Key {
	keys := append(tables(state.TableNodes, state.TableJobs, state.TableSnapshots), state.VolumeKey(ns, id), state.VolumeClaimsKey(ns, id))
	tx := s.state.Read()
	if v := tx.Volume(ns, id); v != nil {
		keys = append(keys, state.AttachmentsKey(v.PluginID, v.RemoteID()))
	}
	for c := range tx.ClaimsByVolume(ns, id) {
		if tx.Alloc(c.AllocID) != nil {
			keys = append(keys, state.AllocKey(c.AllocID))
		}
	}
	return keys
}
