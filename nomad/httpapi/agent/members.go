package agent

import (
	"errors"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

func regions(c *endpoint.Call) (any, error) {
	out, err := wire.StatusRegions.Call(c.Context(), c.Servers, &c.Query)
	if err != nil {
		return nil, err
	}
	return out.Regions, nil
}

// joined is the response to a join as clients know it.
type joined struct {
	NumJoined int    `json:"num_joined"`
	Error     string `json:"error"`
}

func agentJoin(c *endpoint.Call) (any, error) {
	addresses := c.Params["address"]
	if len(addresses) == 0 {
		return nil, fault.New(fault.Invalid, "missing address to join")
	}
	out, err := wire.StatusJoin.Call(c.Context(), c.Servers, &api.ServerJoinRequest{Addresses: addresses, WriteRequest: own(c)})
	if err != nil {
		return nil, err
	}
	return joined{out.Joined, out.Error}, nil
}

// agentForceLeave ejects a server. One that is not known has left: users' scripts repeat the call.
func agentForceLeave(c *endpoint.Call) (any, error) {
	name := c.Params.Get("node")
	if name == "" {
		return nil, fault.New(fault.Invalid, "missing node to force leave")
	}
	prune, err := c.Bool("prune")
	if err != nil {
		return nil, fault.New(fault.Invalid, "invalid prune value: %w", err)
	}
	_, err = wire.StatusForceLeave.Call(c.Context(), c.Servers, &api.ServerForceLeaveRequest{Name: name, Prune: prune, WriteRequest: own(c)})
	if errors.Is(err, fault.NotFound) {
		return nil, nil
	}
	return nil, err
}

// setAgentServers replaces the servers that this agent's node asks.
func (a Config) setAgentServers(c *endpoint.Call) (any, error) {
	addresses := c.Params["address"]
	switch {
	case len(addresses) == 0:
		return nil, fault.New(fault.Invalid, "missing server address")
	case a.SetServerAddresses == nil:
		return nil, fault.New(fault.Unimplemented, "this agent is no client")
	}
	return nil, a.SetServerAddresses(addresses)
}

func keyring(op api.KeyringOp) endpoint.Func {
	return func(c *endpoint.Call) (any, error) {
		var body struct{ Key string }
		if op != api.KeyringList {
			if err := c.Decode(endpoint.BodyMax, &body); err != nil {
				return nil, err
			}
		}
		return wire.StatusKeyring.Call(c.Context(), c.Servers, &api.KeyringRequest{Op: op, Key: body.Key, WriteRequest: own(c)})
	}
}

// own are the options of a write to the server that is asked: gossip spans regions.
func own(c *endpoint.Call) api.WriteRequest {
	return api.WriteRequest{SecretID: c.Query.AuthToken}
}
