package rest

import (
	"context"
	"encoding/json"

	"github.com/open-nomad/open-nomad/api"
)

// Nodes lists nodes.
func (c *Client) Nodes(ctx context.Context, q Query) ([]*api.NodeStub, Meta, error) {
	return get[[]*api.NodeStub](ctx, c, q, "nodes")
}

// Node reads one node.
func (c *Client) Node(ctx context.Context, id string, q Query) (*api.Node, Meta, error) {
	return get[*api.Node](ctx, c, q, "node", id)
}

// NodeAllocations lists the allocations of a node, whole.
func (c *Client) NodeAllocations(ctx context.Context, id string, q Query) ([]*api.Allocation, Meta, error) {
	return get[[]*api.Allocation](ctx, c, q, "node", id, "allocations")
}

// SetEligibility makes a node eligible for new placements, or not.
func (c *Client) SetEligibility(ctx context.Context, id string, eligible bool) (*api.NodeWriteResponse, error) {
	body := api.NodeEligibilityRequest{NodeID: id, Eligibility: api.NodeSchedulingIneligible}
	if eligible {
		body.Eligibility = api.NodeSchedulingEligible
	}
	return put[api.NodeWriteResponse](ctx, c, nil, body, "node", id, "eligibility")
}

// Drain starts a drain, or ends it when spec is nil.
func (c *Client) Drain(ctx context.Context, id string, spec *api.DrainSpec, markEligible bool, meta map[string]string) (*api.NodeWriteResponse, error) {
	body := api.NodeDrainRequest{NodeID: id, DrainSpec: spec, MarkEligible: markEligible, Meta: meta}
	return put[api.NodeWriteResponse](ctx, c, nil, body, "node", id, "drain")
}

// NodeIdentity returns the claims of the signed identity of a node.
func (c *Client) NodeIdentity(ctx context.Context, id string) (json.RawMessage, error) {
	out, _, err := get[struct{ Claims json.RawMessage }](ctx, c, Query{}.with("node_id", id), "client", "identity")
	return out.Claims, err
}

// RenewNodeIdentity makes a node request a new identity.
func (c *Client) RenewNodeIdentity(ctx context.Context, id string) error {
	_, err := put[api.Empty](ctx, c, nil, map[string]string{"NodeID": id}, "client", "identity", "renew")
	return err
}

// IntroduceNode creates a token that introduces new nodes.
func (c *Client) IntroduceNode(ctx context.Context, r api.NodeIntroductionRequest) (*api.NodeIntroductionResponse, error) {
	return put[api.NodeIntroductionResponse](ctx, c, nil, r, "acl", "identity", "client-introduction-token")
}

// NodeStats returns the resource usage of a node; "" is the node of the agent.
func (c *Client) NodeStats(ctx context.Context, id string) (*api.HostStats, error) {
	out, _, err := get[*api.HostStats](ctx, c, ofNode(id), "client", "stats")
	return out, err
}

// NodeMeta reads the metadata of a node; "" is the node of the agent.
func (c *Client) NodeMeta(ctx context.Context, id string) (*api.NodeMetaResponse, error) {
	out, _, err := get[*api.NodeMetaResponse](ctx, c, ofNode(id), "client", "metadata")
	return out, err
}

// ApplyNodeMeta changes the dynamic metadata of a node; "" is the node of the agent.
func (c *Client) ApplyNodeMeta(ctx context.Context, r api.NodeMetaChange) (*api.NodeMetaResponse, error) {
	return put[api.NodeMetaResponse](ctx, c, ofNode(r.NodeID).values(), r, "client", "metadata")
}

func ofNode(id string) Query {
	if id == "" {
		return Query{}
	}
	return Query{}.with("node_id", id)
}
