package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// RemovePeer removes a Raft peer by its id.
func (c *Client) RemovePeer(ctx context.Context, id string) error {
	_, err := c.do(ctx, http.MethodDelete, []string{"operator", "raft", "peer"}, url.Values{"id": {id}}, nil, nil)
	return err
}

// TransferLeadership makes another voter lead, named by id or by address.
func (c *Client) TransferLeadership(ctx context.Context, id, address string) (*api.LeadershipTransferResponse, error) {
	v := url.Values{}
	if id != "" {
		v.Set("id", id)
	}
	if address != "" {
		v.Set("address", address)
	}
	return put[api.LeadershipTransferResponse](ctx, c, v, nil, "operator", "raft", "transfer-leadership")
}

// AutopilotConfig reads the autopilot's configuration.
func (c *Client) AutopilotConfig(ctx context.Context) (*api.AutopilotConfiguration, error) {
	out, _, err := get[*api.AutopilotConfiguration](ctx, c, Query{}, "operator", "autopilot", "configuration")
	return out, err
}

// SetAutopilotConfig writes the autopilot's configuration while it is still at its ModifyIndex, and
// tells whether it was.
func (c *Client) SetAutopilotConfig(ctx context.Context, a *api.AutopilotConfiguration) (bool, error) {
	v := url.Values{"cas": {strconv.FormatUint(a.ModifyIndex, 10)}}
	out, err := put[bool](ctx, c, v, a, "operator", "autopilot", "configuration")
	return err == nil && *out, err
}

// ServerHealth returns the health of the servers; unhealthy servers are no error.
func (c *Client) ServerHealth(ctx context.Context) (*api.OperatorHealthReply, error) {
	out, _, err := get[*api.OperatorHealthReply](ctx, c, Query{}, "operator", "autopilot", "health")
	var refused *Error
	if errors.As(err, &refused) && refused.Code == http.StatusTooManyRequests {
		out, err = new(api.OperatorHealthReply), nil
		if bad := decode(strings.NewReader(refused.Text), out); bad != nil {
			return nil, refused
		}
	}
	return out, err
}

// Join makes the asked server join others by gossip, and returns how many it reached.
func (c *Client) Join(ctx context.Context, addresses []string) (int, string, error) {
	var out struct {
		NumJoined int    `json:"num_joined"`
		Error     string `json:"error"`
	}
	_, err := c.do(ctx, http.MethodPut, []string{"agent", "join"}, url.Values{"address": addresses}, nil, &out)
	return out.NumJoined, out.Error, err
}

// ForceLeave ejects a failed server; with prune it is forgotten.
func (c *Client) ForceLeave(ctx context.Context, name string, prune bool) error {
	v := url.Values{"node": {name}}
	if prune {
		v.Set("prune", "true")
	}
	_, err := c.do(ctx, http.MethodPut, []string{"agent", "force-leave"}, v, nil, nil)
	return err
}

// Keyring lists or changes the gossip keys of all servers.
func (c *Client) Keyring(ctx context.Context, op api.KeyringOp, key string) (*api.KeyringResponse, error) {
	return put[api.KeyringResponse](ctx, c, nil, struct{ Key string }{key}, "agent", "keyring", string(op))
}

// AgentServers lists the servers that the asked agent's node knows.
func (c *Client) AgentServers(ctx context.Context) ([]string, error) {
	out, _, err := get[[]string](ctx, c, Query{}, "agent", "servers")
	return out, err
}

// SetAgentServers replaces the servers that the asked agent's node knows.
func (c *Client) SetAgentServers(ctx context.Context, addresses []string) error {
	_, err := c.do(ctx, http.MethodPut, []string{"agent", "servers"}, url.Values{"address": addresses}, nil, nil)
	return err
}

// SaveSnapshot copies a snapshot of the whole state to out; stale lets any server answer.
// Redacted it has no secrets.
func (c *Client) SaveSnapshot(ctx context.Context, stale, redacted bool, out io.Writer) error {
	v := url.Values{}
	if stale {
		v.Set("stale", "true")
	}
	if redacted {
		v.Set("redact", "true")
	}
	return c.Raw(ctx, http.MethodGet, []string{"operator", "snapshot"}, v, out)
}

// RestoreSnapshot replaces the whole state by that of a snapshot, with force also while external volumes are attached, and
// returns warnings.
func (c *Client) RestoreSnapshot(ctx context.Context, force bool, in io.Reader) (warnings string, err error) {
	v := url.Values{}
	if force {
		v.Set("force", "true")
	}
	r, err := c.request(ctx, http.MethodPut, []string{"operator", "snapshot"}, v, in)
	if err != nil {
		return "", err
	}
	resp, err := c.send(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var out struct{ Warnings string }
	if err := decode(resp.Body, &out); err != nil && !errors.Is(err, io.EOF) {
		return "", fault.New(fault.Internal, "decode answer of %s: %w", r.URL.Path, err)
	}
	return out.Warnings, nil
}
