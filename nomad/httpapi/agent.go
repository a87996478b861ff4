package httpapi

import (
	"encoding/json"
	"net/http"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

var agentRoutes = []route{
	{method: "GET", pattern: "/v1/agent/self", serve: agentSelf},
	{method: "GET", pattern: "/v1/agent/members", serve: agentMembers},
	{method: "GET", pattern: "/v1/agent/health", serve: agentHealth},
	{method: "GET", pattern: "/v1/agent/servers", serve: agentServers},
	{method: "GET", pattern: "/v1/status/leader", serve: statusLeader},
	{method: "GET", pattern: "/v1/status/peers", serve: statusPeers},
}

func agentSelf(c *call) (any, error) {
	if c.Self == nil {
		return nil, fault.New(fault.Unimplemented, "this agent does not describe itself")
	}
	return c.Self(), nil
}

func members(c *call) ([]*api.AgentMember, error) {
	q := c.reads()
	out, err := wire.StatusMembers.Call(c.ctx(), c.Servers, &q)
	if err != nil {
		return nil, err
	}
	return list(out.Members), nil
}

func agentMembers(c *call) (any, error) {
	m, err := members(c)
	if err != nil {
		return nil, err
	}
	return api.ServerMembers{ServerName: c.Name, ServerRegion: c.Region, ServerDC: c.Datacenter, Members: m}, nil
}

// agentHealth answers for load balancers: 500 when the asked half is not well.
func agentHealth(c *call) (any, error) {
	var h api.AgentHealthResponse
	if c.Health != nil {
		if got := c.Health(c.ctx()); got != nil {
			h = *got
		}
	}
	switch kind := c.params.Get("type"); kind {
	case "":
	case "server":
		h.Client = nil
	case "client":
		h.Server = nil
	default:
		return nil, fault.New(fault.Invalid, "type %q is neither server nor client", kind)
	}
	well := (h.Client == nil || h.Client.Ok) && (h.Server == nil || h.Server.Ok)
	if well {
		return h, nil
	}
	body, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(http.StatusInternalServerError)
	_, _ = c.w.Write(body)
	return nil, errStreamed
}

func agentServers(c *call) (any, error) {
	if c.ServerAddresses == nil {
		return []string{}, nil
	}
	return list(c.ServerAddresses()), nil
}

func statusLeader(c *call) (any, error) {
	q := c.reads()
	out, err := wire.StatusLeader.Call(c.ctx(), c.Servers, &q)
	if err != nil {
		return nil, err
	}
	return out.Leader, nil
}

func statusPeers(c *call) (any, error) {
	q := c.reads()
	out, err := wire.StatusPeers.Call(c.ctx(), c.Servers, &q)
	if err != nil {
		return nil, err
	}
	return list(out.Peers), nil
}
