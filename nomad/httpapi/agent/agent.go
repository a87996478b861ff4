package agent

import (
	"context"
	"net/http"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/inspect"
	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// Config holds what the endpoints need of this agent. A missing part gives a clear error or an empty document.
type Config struct {
	// Name and Datacenter are those of this agent.
	Name, Datacenter string
	// Self describes this agent.
	Self func() *api.AgentSelf
	// Metrics are those of this agent; nil has none.
	Metrics *metrics.Recorder
	// Inspect is this agent as operators look into it; nil refuses that.
	Inspect *inspect.Agent
	// Health reports the health of this agent's server and client.
	Health func(ctx context.Context) *api.AgentHealthResponse
	// Reload reads this agent's configuration again.
	Reload func() error
	// Schedulers are the workers of this agent's server; nil where no server runs.
	Schedulers Schedulers
	// ServerAddresses lists the servers that this agent's client half knows.
	ServerAddresses func() []string
	// SetServerAddresses replaces them until the servers report others; nil where no client half runs.
	SetServerAddresses func([]string) error
}

// Rights on what agents answer themselves.
var (
	agentRead  = api.Right{On: api.OnAgent, Any: []string{"read"}}
	agentWrite = api.Right{On: api.OnAgent, Any: []string{"write"}}
)

// Routes are the endpoints of this agent, and of the servers that it knows.
func Routes(a Config) []endpoint.Route {
	return append(inspectRoutes(a.Inspect),
		[]endpoint.Route{
			{Method: "GET", Pattern: "/v1/agent/self", Serve: a.agentSelf, Right: agentRead},
			{Method: "GET", Pattern: "/v1/agent/members", Serve: a.agentMembers},
			{Method: "GET", Pattern: "/v1/agent/health", Serve: a.agentHealth},
			{Method: "GET", Pattern: "/v1/agent/servers", Serve: a.agentServers, Right: agentRead},
			{Method: "GET", Pattern: "/v1/status/leader", Serve: statusLeader},
			{Method: "GET", Pattern: "/v1/status/peers", Serve: statusPeers},
			{Method: "GET", Pattern: "/v1/regions", Serve: regions},
			{Method: "PUT", Pattern: "/v1/agent/join", Serve: agentJoin},
			{Method: "PUT", Pattern: "/v1/agent/force-leave", Serve: agentForceLeave},
			{Method: "PUT", Pattern: "/v1/agent/servers", Serve: a.setAgentServers, Right: agentWrite},
			{Method: "GET", Pattern: "/v1/agent/keyring/list", Serve: keyring(api.KeyringList)},
			{Method: "PUT", Pattern: "/v1/agent/keyring/list", Serve: keyring(api.KeyringList)},
			{Method: "PUT", Pattern: "/v1/agent/keyring/install", Serve: keyring(api.KeyringInstall)},
			{Method: "PUT", Pattern: "/v1/agent/keyring/use", Serve: keyring(api.KeyringUse)},
			{Method: "PUT", Pattern: "/v1/agent/keyring/remove", Serve: keyring(api.KeyringRemove)},
			{Method: "DELETE", Pattern: "/v1/agent/keyring/remove", Serve: keyring(api.KeyringRemove)},
			{Method: "GET", Pattern: "/v1/metrics", Serve: a.metrics},
			{Method: "GET", Pattern: "/v1/agent/schedulers", Serve: a.schedulerWorkers, Right: agentRead},
			{Method: "GET", Pattern: "/v1/agent/schedulers/config", Serve: a.schedulerWorkerConfig, Right: agentRead},
			{Method: "PUT", Pattern: "/v1/agent/schedulers/config", Serve: a.setSchedulerWorkerConfig, Right: agentWrite},
			{Method: "PUT", Pattern: "/v1/agent/reload", Serve: a.agentReload, Right: agentWrite},
		}...)
}

func (a Config) agentSelf(c *endpoint.Call) (any, error) {
	if a.Self == nil {
		return nil, fault.New(fault.Unimplemented, "this agent does not describe itself")
	}
	return a.Self(), nil
}

func members(c *endpoint.Call) ([]*api.AgentMember, error) {
	out, err := wire.StatusMembers.Call(c.Context(), c.Servers, &c.Query)
	if err != nil {
		return nil, err
	}
	return endpoint.List(out.Members), nil
}

func (a Config) agentMembers(c *endpoint.Call) (any, error) {
	m, err := members(c)
	if err != nil {
		return nil, err
	}
	return api.ServerMembers{ServerName: a.Name, ServerRegion: c.Region, ServerDC: a.Datacenter, Members: m}, nil
}

// agentHealth serves load balancers: 500 when the server, the client or the one that the type names is unhealthy.
func (a Config) agentHealth(c *endpoint.Call) (any, error) {
	var h api.AgentHealthResponse
	if a.Health != nil {
		if got := a.Health(c.Context()); got != nil {
			h = *got
		}
	}
	switch c.Params.Get("type") {
	case "server":
		h.Client = nil
	case "client":
		h.Server = nil
	}
	if (h.Client == nil || h.Client.Ok) && (h.Server == nil || h.Server.Ok) {
		return h, nil
	}
	return c.Status(http.StatusInternalServerError, h)
}

func (a Config) agentServers(c *endpoint.Call) (any, error) {
	if a.ServerAddresses == nil {
		return []string{}, nil
	}
	return a.ServerAddresses(), nil
}

func statusLeader(c *endpoint.Call) (any, error) {
	out, err := wire.StatusLeader.Call(c.Context(), c.Servers, &c.Query)
	if err != nil {
		return nil, err
	}
	return out.Leader, nil
}

func statusPeers(c *endpoint.Call) (any, error) {
	out, err := wire.StatusPeers.Call(c.Context(), c.Servers, &c.Query)
	if err != nil {
		return nil, err
	}
	return out.Peers, nil
}

// agentReload does what SIGHUP does, and returns its error.
func (a Config) agentReload(*endpoint.Call) (any, error) {
	if a.Reload == nil {
		return nil, fault.New(fault.Unimplemented, "this agent cannot reload its configuration")
	}
	return nil, a.Reload()
}
