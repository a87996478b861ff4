package access

import (
	"context"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// ErrDisabled is the answer of what exists with access control only.
var ErrDisabled = fault.New(fault.Invalid, "ACL support disabled")

// Handlers binds the methods that answer questions about rights.
func (g *Gate) Handlers() []wire.Handler {
	return []wire.Handler{wire.ACLCheck.Handle(g.check), wire.ACLExplain.Handle(g.explain)}
}

// check reports whether the caller has a right. Agents call it for the requests that they serve themselves. Without a right
// it reports whose token the caller has.
func (g *Gate) check(ctx context.Context, r *api.ACLCheckRequest) (*api.ACLCheckResponse, error) {
	if r.Right.On == "" {
		return g.authenticate(r)
	}
	c := Of(ctx)
	out := &api.ACLCheckResponse{AccessorID: c.Token.AccessorID}
	out.Index = max(g.State.Touched(Tables...), 1)
	if !g.Enabled {
		return out, nil
	}
	if r.AllocID != "" {
		return out, g.OnAlloc(c, r.Right, r.AllocID)
	}
	if !c.Rights.Allows(r.Right, r.Name) {
		return nil, ErrDenied
	}
	return out, nil
}

// authenticate finds the caller of a request that must have a token. Without access control only workloads have one.
func (g *Gate) authenticate(r *api.ACLCheckRequest) (*api.ACLCheckResponse, error) {
	if r.AuthToken == "" {
		return nil, fault.New(fault.Unauthenticated, "the request needs a token or a workload identity")
	}
	c, err := g.Caller(r.AuthToken)
	if err != nil {
		return nil, err
	}
	out := &api.ACLCheckResponse{AccessorID: c.Token.AccessorID}
	out.Index = max(g.State.Touched(Tables...), 1)
	return out, nil
}

// explain returns the rule that permits or refuses a right to the caller, or to a token that a management token names.
func (g *Gate) explain(ctx context.Context, r *api.ACLExplainRequest) (*api.ACLExplainResponse, error) {
	if !g.Enabled {
		return nil, ErrDisabled
	}
	c := Of(ctx)
	if r.AccessorID != "" && r.AccessorID != c.Token.AccessorID {
		if !c.Rights.IsManagement() {
			return nil, ErrDenied
		}
		t := g.State.Read().ACLToken(r.AccessorID)
		if t == nil {
			return nil, fault.New(fault.NotFound, "ACL token not found")
		}
		c = callerOf(g.State.Read(), t, g.cache.parse)
	}
	out := &api.ACLExplainResponse{AccessorID: c.Token.AccessorID, Verdict: c.Rights.Explain(r.Right, r.Name)}
	out.Index = max(g.State.Touched(Tables...), 1)
	return out, nil
}
