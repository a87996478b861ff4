package httpapi

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

var pluginRoutes = []route{
	{method: "GET", pattern: "/v1/plugins", serve: pluginList},
	{method: "GET", pattern: "/v1/plugin/csi/:id", serve: pluginGet},
	{method: "PUT", pattern: "/v1/plugin/csi/:id/renamed", serve: pluginRenamed},
}

func pluginList(c *call) (any, error) {
	switch kind := c.params.Get("type"); kind {
	case "":
		return []*api.PluginStub{}, nil
	case api.VolumeTypeCSI:
	default:
		return nil, fault.New(fault.Invalid, "there are no plugins of type %q, only csi", kind)
	}
	out, err := wire.PluginList.Call(c.ctx(), c.Servers, &api.PluginListRequest{QueryOptions: c.reads()})
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	return page(c, out.Plugins, byName(func(p *api.PluginStub) string { return p.ID }))
}

func pluginGet(c *call) (any, error) {
	out, err := wire.PluginGet.Call(c.ctx(), c.Servers, &api.PluginGetRequest{ID: c.id, QueryOptions: c.reads()})
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	if out.Plugin == nil {
		return nil, missing("plugin not found")
	}
	return viewPlugin(out.Plugin), nil
}

func pluginRenamed(c *call) (any, error) {
	return emptyWrite(c)(wire.PluginRenamed.Call(c.ctx(), c.Servers, &api.PluginRenamedRequest{
		ID: c.id, Former: c.params.Get("former"), Present: c.params.Get("present"), WriteRequest: c.writes(),
	}))
}
