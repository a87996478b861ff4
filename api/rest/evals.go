package rest

import (
	"context"

	"github.com/open-nomad/open-nomad/api"
)

// Evals lists evaluations; Params may hold job and status.
func (c *Client) Evals(ctx context.Context, q Query) ([]*api.Evaluation, Meta, error) {
	return get[[]*api.Evaluation](ctx, c, q, "evaluations")
}

// Eval reads one evaluation.
func (c *Client) Eval(ctx context.Context, id string, q Query) (*api.Evaluation, Meta, error) {
	return get[*api.Evaluation](ctx, c, q, "evaluation", id)
}

// EvalAllocations lists the allocations that an evaluation made.
func (c *Client) EvalAllocations(ctx context.Context, id string, q Query) ([]*api.AllocStub, Meta, error) {
	return get[[]*api.AllocStub](ctx, c, q, "evaluation", id, "allocations")
}

// Related asks for the chain of an evaluation too.
func (q Query) Related() Query { return q.with("related", "true") }
