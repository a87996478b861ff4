package volumes

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/nomad/volumes/pluginview"
)

// List lists volumes by namespace and id, optionally of one plugin or used on one node.
func (s *Service) List(ctx context.Context, r *api.VolumeListRequest) (*api.VolumeListResponse, error) {
	out := &api.VolumeListResponse{}
	keys := tables(state.TableVolumes, state.TableClaims, state.TableNodes, state.TableJobs)
	err := rpc.Block(ctx, s.state, &r.QueryOptions, &out.QueryMeta, keys, func(tx *state.Txn) error {
		out.Volumes = []*api.VolumeStub{}
		plugins := map[string]*api.Plugin{}
		for _, v := range listed(tx, r) {
			p, known := plugins[v.PluginID]
			if !known {
				p = pluginview.Of(tx, v.PluginID)
				plugins[v.PluginID] = p
			}
			out.Volumes = append(out.Volumes, stub(tx, v, p))
		}
		return nil
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

func listed(tx *state.Txn, r *api.VolumeListRequest) []*api.Volume {
	ns := namespaceOf(r.Namespace)
	var list []*api.Volume
	switch {
	case r.NodeID != "":
		list = onNode(tx, r.NodeID)
	case r.PluginID != "":
		list = slices.Collect(tx.VolumesByPlugin(r.PluginID))
	default:
		list = slices.Collect(tx.VolumesPrefix(ns, r.Prefix))
	}
	list = slices.DeleteFunc(list, func(v *api.Volume) bool {
		return ns != api.AllNamespaces && v.Namespace != ns || r.PluginID != "" && v.PluginID != r.PluginID || !strings.HasPrefix(v.ID, r.Prefix)
	})
	slices.SortFunc(list, func(a, b *api.Volume) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// onNode lists the volumes that have a claim on the node, each once.
func onNode(tx *state.Txn, node string) []*api.Volume {
	var list []*api.Volume
	for c := range tx.ClaimsByNode(node) {
		if v := ledger.SpecOf(tx, c); v != nil && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
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
