package volumes

import (
	"context"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/allocs/row"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/pluginview"
)

// ListPlugins lists CSI plugins by id.
func (s *Service) ListPlugins(ctx context.Context, r *api.PluginListRequest) (*api.PluginListResponse, error) {
	out := &api.PluginListResponse{}
	var err error
	out.Plugins, err = page.Read(ctx, s.state, &r.QueryOptions, &out.QueryMeta, pluginKeys(), func(tx *state.Txn) page.List[*api.PluginStub, *api.PluginStub] {
		var rows []*api.PluginStub
		for _, id := range pluginview.IDs(tx) {
			if p := pluginview.Of(tx, id); p != nil {
				rows = append(rows, &api.PluginStub{
					ID: p.ID, Provider: p.Provider, ControllerRequired: p.ControllerRequired,
					ControllersHealthy: p.ControllersHealthy, ControllersExpected: p.ControllersExpected,
					NodesHealthy: p.NodesHealthy, NodesExpected: p.NodesExpected,
					CreateIndex: p.CreateIndex, ModifyIndex: p.ModifyIndex,
				})
			}
		}
		token := func(p *api.PluginStub) string { return p.ID }
		return page.Stored(page.Sorted(rows, token), token)
	})
	return out, err
}

func pluginKeys() []state.Key { return tables(state.TableNodes, state.TableJobs, state.TableAllocs) }

// GetPlugin reads one CSI plugin with its allocations.
func (s *Service) GetPlugin(ctx context.Context, r *api.PluginGetRequest) (*api.PluginGetResponse, error) {
	if r.ID == "" {
		return nil, fault.New(fault.Invalid, "missing plugin ID")
	}
	ns := namespaceOf(r.Namespace)
	out := &api.PluginGetResponse{}
	err := rpc.Block(ctx, s.state, &r.QueryOptions, &out.QueryMeta, pluginKeys(), func(tx *state.Txn) error {
		if out.Plugin = pluginview.Of(tx, r.ID); out.Plugin != nil {
			out.Plugin.Allocations = slices.DeleteFunc(instances(tx, out.Plugin, ns), func(a *api.AllocStub) bool { return !access.Sees(ctx, a.Namespace) })
		}
		return nil
	})
	return out, err
}

// instances lists the allocations that run the plugin, newest first.
func instances(tx *state.Txn, p *api.Plugin, ns string) []*api.AllocStub {
	seen := map[string]bool{}
	list := []*api.AllocStub{}
	for _, infos := range []map[string]*api.CSIInfo{p.Controllers, p.Nodes} {
		for _, i := range infos {
			a := tx.Alloc(i.AllocID)
			if a == nil || seen[a.ID] || ns != api.AllNamespaces && a.Namespace != ns {
				continue
			}
			seen[a.ID] = true
			list = append(list, row.Of(a))
		}
	}
	slices.SortFunc(list, newest)
	return list
}
