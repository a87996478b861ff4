package volumes

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

var pluginRoutes = []endpoint.Route{
	{Method: "GET", Pattern: "/v1/plugins", Serve: pluginList},
	{Method: "GET", Pattern: "/v1/plugin/csi/:id", Serve: pluginGet},
}

func pluginList(c *endpoint.Call) (any, error) {
	switch kind := c.Params.Get("type"); kind {
	case "":
		return []*api.PluginStub{}, nil
	case api.VolumeTypeCSI:
	default:
		return nil, fault.New(fault.Invalid, "there are no plugins of type %q, only csi", kind)
	}
	out, err := endpoint.Read(c, wire.PluginList, &api.PluginListRequest{QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	return out.Plugins, nil
}

func pluginGet(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.PluginGet, &api.PluginGetRequest{ID: c.ID, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	if out.Plugin == nil {
		return nil, endpoint.Missing("plugin not found")
	}
	return viewPlugin(out.Plugin), nil
}

// pluginView is a plugin with the jobs that run it, by namespace and id.
type pluginView struct {
	*api.Plugin
	ControllerJobs, NodeJobs map[string]map[string]pluginJob
}

type pluginJob struct {
	Namespace, ID string
	Expected      int
}

func viewPlugin(p *api.Plugin) pluginView {
	jobs := func(instances map[string]*api.CSIInfo, expected int) map[string]map[string]pluginJob {
		of := map[string]bool{}
		for _, i := range instances {
			of[i.AllocID] = true
		}
		all := map[string]map[string]pluginJob{}
		for _, a := range p.Allocations {
			if !of[a.ID] {
				continue
			}
			if all[a.Namespace] == nil {
				all[a.Namespace] = map[string]pluginJob{}
			}
			j := all[a.Namespace][a.JobID]
			all[a.Namespace][a.JobID] = pluginJob{a.Namespace, a.JobID, j.Expected + 1}
		}
		if len(all) != 1 {
			return all
		}
		for _, byID := range all {
			for id, j := range byID {
				if len(byID) == 1 { // it is the one that is meant by what is expected
					byID[id] = pluginJob{j.Namespace, j.ID, expected}
				}
			}
		}
		return all
	}
	return pluginView{p, jobs(p.Controllers, p.ControllersExpected), jobs(p.Nodes, p.NodesExpected)}
}
