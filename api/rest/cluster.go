package rest

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
)

// Self describes the asked agent.
func (c *Client) Self(ctx context.Context) (*api.AgentSelf, error) {
	out, _, err := get[*api.AgentSelf](ctx, c, Query{}, "agent", "self")
	return out, err
}

// Members lists the servers.
func (c *Client) Members(ctx context.Context) (*api.ServerMembers, error) {
	out, _, err := get[*api.ServerMembers](ctx, c, Query{}, "agent", "members")
	return out, err
}

// Leader is the RPC address of the leader.
func (c *Client) Leader(ctx context.Context) (string, error) {
	out, _, err := get[string](ctx, c, Query{}, "status", "leader")
	return out, err
}

// Namespaces lists namespaces.
func (c *Client) Namespaces(ctx context.Context, q Query) ([]*api.Namespace, Meta, error) {
	return get[[]*api.Namespace](ctx, c, q, "namespaces")
}

// NamespaceInfo reads one namespace.
func (c *Client) NamespaceInfo(ctx context.Context, name string) (*api.Namespace, error) {
	out, _, err := get[*api.Namespace](ctx, c, Query{}, "namespace", name)
	return out, err
}

// PutNamespace creates or updates a namespace.
func (c *Client) PutNamespace(ctx context.Context, n *api.Namespace) error {
	_, err := c.do(ctx, http.MethodPut, []string{"namespace", n.Name}, nil, n, nil)
	return err
}

// DeleteNamespace deletes a namespace.
func (c *Client) DeleteNamespace(ctx context.Context, name string) error {
	_, err := c.do(ctx, http.MethodDelete, []string{"namespace", name}, nil, nil, nil)
	return err
}

// SchedulerConfig reads the scheduling configuration.
func (c *Client) SchedulerConfig(ctx context.Context) (*api.SchedulerConfigResponse, error) {
	out, _, err := get[*api.SchedulerConfigResponse](ctx, c, Query{}, "operator", "scheduler", "configuration")
	return out, err
}

// SetSchedulerConfig writes the scheduling configuration, with cas only while it is still at that index.
func (c *Client) SetSchedulerConfig(ctx context.Context, s *api.SchedulerConfiguration, cas *uint64) (*api.SchedulerConfigWriteResponse, error) {
	v := url.Values{}
	if cas != nil {
		v.Set("cas", strconv.FormatUint(*cas, 10))
	}
	return put[api.SchedulerConfigWriteResponse](ctx, c, v, s, "operator", "scheduler", "configuration")
}

// RaftConfiguration lists the Raft peers.
func (c *Client) RaftConfiguration(ctx context.Context, stale bool) (*api.RaftConfiguration, error) {
	out, _, err := get[*api.RaftConfiguration](ctx, c, Query{Stale: stale}, "operator", "raft", "configuration")
	return out, err
}

// GC collects garbage now.
func (c *Client) GC(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodPut, []string{"system", "gc"}, nil, nil, nil)
	return err
}

// ReconcileSummaries recounts job summaries.
func (c *Client) ReconcileSummaries(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodPut, []string{"system", "reconcile", "summaries"}, nil, nil, nil)
	return err
}

// Search lists ids that begin with a prefix, per context; "all" searches everywhere.
func (c *Client) Search(ctx context.Context, prefix, kind string, q Query) (map[string][]string, error) {
	var out struct{ Matches map[string][]string }
	_, err := c.do(ctx, http.MethodPost, []string{"search"}, q.values(), struct{ Prefix, Context string }{prefix, kind}, &out)
	return out.Matches, err
}
