package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

var serverRoutes = []route{
	{method: "DELETE", pattern: "/v1/operator/raft/peer", serve: raftRemovePeer},
	{method: "PUT", pattern: "/v1/operator/raft/transfer-leadership", serve: transferLeadership},
	{method: "GET", pattern: "/v1/operator/autopilot/configuration", serve: autopilotConfig},
	{method: "PUT", pattern: "/v1/operator/autopilot/configuration", serve: setAutopilotConfig},
	{method: "GET", pattern: "/v1/operator/autopilot/health", serve: serverHealth},
	{method: "GET", pattern: "/v1/operator/snapshot", serve: snapshotSave, stays: true},
	{method: "PUT", pattern: "/v1/operator/snapshot", serve: snapshotRestore, stays: true},
	{method: "GET", pattern: "/v1/regions", serve: regions},
	{method: "PUT", pattern: "/v1/agent/join", serve: agentJoin},
	{method: "PUT", pattern: "/v1/agent/force-leave", serve: agentForceLeave},
	{method: "PUT", pattern: "/v1/agent/servers", serve: setAgentServers},
	{method: "GET", pattern: "/v1/agent/keyring/list", serve: keyring(api.KeyringList)},
	{method: "PUT", pattern: "/v1/agent/keyring/list", serve: keyring(api.KeyringList)},
	{method: "PUT", pattern: "/v1/agent/keyring/install", serve: keyring(api.KeyringInstall)},
	{method: "PUT", pattern: "/v1/agent/keyring/use", serve: keyring(api.KeyringUse)},
	{method: "PUT", pattern: "/v1/agent/keyring/remove", serve: keyring(api.KeyringRemove)},
	{method: "DELETE", pattern: "/v1/agent/keyring/remove", serve: keyring(api.KeyringRemove)},
}

func raftRemovePeer(c *call) (any, error) {
	id := c.params.Get("id")
	switch {
	case id == "" && c.params.Has("address"):
		return nil, fault.New(fault.Invalid, "Removing a peer by address is not supported in the current raft protocol version")
	case id == "":
		return nil, fault.New(fault.Invalid, "Must specify the peer's ID to remove")
	}
	return emptyWrite(c)(wire.OperatorRaftRemovePeer.Call(c.ctx(), c.Servers, &api.RaftPeerRequest{ID: id, WriteRequest: c.writes()}))
}

func transferLeadership(c *call) (any, error) {
	id, address := c.params.Get("id"), c.params.Get("address")
	switch {
	case c.params.Has("id") && id == "":
		return nil, fault.New(fault.Invalid, "id must be non-empty")
	case c.params.Has("address") && address == "":
		return nil, fault.New(fault.Invalid, "address must be non-empty")
	case id == "" && address == "":
		return nil, fault.New(fault.Invalid, "must specify id or address")
	case id != "" && address != "":
		return nil, fault.New(fault.Invalid, "must specify either id or address")
	}
	return wire.OperatorTransferLeadership.Call(c.ctx(), c.Servers, &api.RaftPeerRequest{ID: id, Address: address, WriteRequest: c.writes()})
}

func autopilotConfig(c *call) (any, error) {
	q := c.reads()
	out, err := wire.OperatorAutopilotConfig.Call(c.ctx(), c.Servers, &q)
	if err != nil {
		return nil, err
	}
	return out.Config, nil
}

func setAutopilotConfig(c *call) (any, error) {
	config := api.DefaultAutopilot()
	if err := c.decode(bodyBytes, config); err != nil {
		return nil, err
	}
	req := &api.AutopilotConfigRequest{Config: config, WriteRequest: c.writes()}
	if c.params.Has("cas") {
		n, err := number(c.params, "cas")
		if err != nil || n < 0 {
			return nil, fault.New(fault.Invalid, "invalid cas value %q: want an index", c.params.Get("cas"))
		}
		req.CAS, config.ModifyIndex = true, uint64(n)
	}
	out, err := wire.OperatorSetAutopilotConfig.Call(c.ctx(), c.Servers, req)
	if err != nil {
		return nil, err
	}
	return out.Updated, nil
}

// serverHealth answers 429 with the same body when the servers are not well, for load balancers.
func serverHealth(c *call) (any, error) {
	q := c.reads()
	out, err := wire.OperatorServerHealth.Call(c.ctx(), c.Servers, &q)
	if err != nil {
		return nil, err
	}
	if out.Health == nil || out.Health.Healthy {
		return out.Health, nil
	}
	body, err := json.Marshal(out.Health)
	if err != nil {
		return nil, err
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(http.StatusTooManyRequests)
	_, _ = c.w.Write(body)
	return nil, errStreamed
}

func regions(c *call) (any, error) {
	q := c.reads()
	out, err := wire.StatusRegions.Call(c.ctx(), c.Servers, &q)
	if err != nil {
		return nil, err
	}
	return list(out.Regions), nil
}

// joined is the answer of a join as clients know it.
type joined struct {
	NumJoined int    `json:"num_joined"`
	Error     string `json:"error"`
}

func agentJoin(c *call) (any, error) {
	addresses := c.params["address"]
	if len(addresses) == 0 {
		return nil, fault.New(fault.Invalid, "missing address to join")
	}
	out, err := wire.StatusJoin.Call(c.ctx(), c.Servers, &api.ServerJoinRequest{Addresses: addresses})
	if err != nil {
		return nil, err
	}
	return joined{out.Joined, out.Error}, nil
}

// agentForceLeave ejects a server. One that is not known has left: users' scripts repeat the call.
func agentForceLeave(c *call) (any, error) {
	name := c.params.Get("node")
	if name == "" {
		return nil, fault.New(fault.Invalid, "missing node to force leave")
	}
	prune, err := boolean(c.params, "prune")
	if err != nil {
		return nil, fault.New(fault.Invalid, "invalid prune value: %w", err)
	}
	_, err = wire.StatusForceLeave.Call(c.ctx(), c.Servers, &api.ServerForceLeaveRequest{Name: name, Prune: prune})
	if errors.Is(err, fault.NotFound) {
		return nil, nil
	}
	return nil, err
}

// setAgentServers replaces the servers that this agent's node asks.
func setAgentServers(c *call) (any, error) {
	addresses := c.params["address"]
	switch {
	case len(addresses) == 0:
		return nil, fault.New(fault.Invalid, "missing server address")
	case c.SetServerAddresses == nil:
		return nil, fault.New(fault.Unimplemented, "this agent is no client")
	}
	return nil, c.SetServerAddresses(addresses)
}

func keyring(op api.KeyringOp) endpoint {
	return func(c *call) (any, error) {
		var body struct{ Key string }
		if op != api.KeyringList {
			if err := c.decode(bodyBytes, &body); err != nil {
				return nil, err
			}
		}
		return wire.StatusKeyring.Call(c.ctx(), c.Servers, &api.KeyringRequest{Op: op, Key: body.Key})
	}
}
