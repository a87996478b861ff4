package operator

import (
	"net/http"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

var serverRoutes = []endpoint.Route{
	{Method: "DELETE", Pattern: "/v1/operator/raft/peer", Serve: raftRemovePeer},
	{Method: "PUT", Pattern: "/v1/operator/raft/transfer-leadership", Serve: transferLeadership},
	{Method: "GET", Pattern: "/v1/operator/autopilot/configuration", Serve: autopilotConfig},
	{Method: "PUT", Pattern: "/v1/operator/autopilot/configuration", Serve: setAutopilotConfig},
	{Method: "GET", Pattern: "/v1/operator/autopilot/health", Serve: serverHealth},
	{Method: "GET", Pattern: "/v1/operator/snapshot", Serve: snapshotSave, Stays: true},
	{Method: "PUT", Pattern: "/v1/operator/snapshot", Serve: snapshotRestore, Stays: true},
}

func raftRemovePeer(c *endpoint.Call) (any, error) {
	id := c.Params.Get("id")
	switch {
	case id == "" && c.Params.Has("address"):
		return nil, fault.New(fault.Invalid, "Removing a peer by address is not supported in the current raft protocol version")
	case id == "":
		return nil, fault.New(fault.Invalid, "Must specify the peer's ID to remove")
	}
	return endpoint.WriteEmpty(c, wire.OperatorRaftRemovePeer, &api.RaftPeerRequest{ID: id, WriteRequest: c.Writes()})
}

func transferLeadership(c *endpoint.Call) (any, error) {
	id, address := c.Params.Get("id"), c.Params.Get("address")
	switch {
	case c.Params.Has("id") && id == "":
		return nil, fault.New(fault.Invalid, "id must be non-empty")
	case c.Params.Has("address") && address == "":
		return nil, fault.New(fault.Invalid, "address must be non-empty")
	case id == "" && address == "":
		return nil, fault.New(fault.Invalid, "must specify id or address")
	case id != "" && address != "":
		return nil, fault.New(fault.Invalid, "must specify either id or address")
	}
	return wire.OperatorTransferLeadership.Call(c.Context(), c.Servers, &api.RaftPeerRequest{ID: id, Address: address, WriteRequest: c.Writes()})
}

func autopilotConfig(c *endpoint.Call) (any, error) {
	out, err := wire.OperatorAutopilotConfig.Call(c.Context(), c.Servers, &c.Query)
	if err != nil {
		return nil, err
	}
	return out.Config, nil
}

func setAutopilotConfig(c *endpoint.Call) (any, error) {
	config := api.DefaultAutopilot()
	if err := c.Decode(endpoint.BodyMax, config); err != nil {
		return nil, err
	}
	req := &api.AutopilotConfigRequest{Config: config, WriteRequest: c.Writes()}
	if c.Params.Has("cas") {
		n, err := c.Int("cas")
		if err != nil || n < 0 {
			return nil, fault.New(fault.Invalid, "invalid cas value %q: want an index", c.Params.Get("cas"))
		}
		req.CAS, config.ModifyIndex = true, uint64(n)
	}
	out, err := wire.OperatorSetAutopilotConfig.Call(c.Context(), c.Servers, req)
	if err != nil {
		return nil, err
	}
	return out.Updated, nil
}

// serverHealth replies 429 with the same body when the servers are unhealthy, for load balancers.
func serverHealth(c *endpoint.Call) (any, error) {
	out, err := wire.OperatorServerHealth.Call(c.Context(), c.Servers, &c.Query)
	if err != nil {
		return nil, err
	}
	if out.Health == nil || out.Health.Healthy {
		return out.Health, nil
	}
	return c.Status(http.StatusTooManyRequests, out.Health)
}
