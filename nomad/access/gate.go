package access

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/nomad/acl/policy"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Config is what a gate needs.
type Config struct {
	State *state.Store
	// Enabled switches access control on.
	Enabled bool
	// VerifyNode checks the secret of a node.
	VerifyNode func(ctx context.Context, nodeID, secret string) error
	// Identities verifies the identities of workloads; nil refuses them.
	Identities *identity.Service
	// Metrics records how long tokens are resolved; nil does not.
	Metrics *metrics.Recorder
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Gate admits calls.
type Gate struct {
	Config
	cache cache
	// workloads are the callers of identities.
	workloads cache
}

// New makes a gate.
func New(c Config) *Gate {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Gate{
		Config: c, cache: cache{tables: Tables},
		workloads: cache{tables: append(slices.Clone(Tables), state.TableKey(state.TableRootKeys))},
	}
}

// Admit returns the context for serving a request, or why it is refused.
func (g *Gate) Admit(ctx context.Context, needs wire.Needs, req any) (context.Context, error) {
	if !g.Enabled || ctx.Value(internalKey{}) != nil {
		return ctx, nil
	}
	a := &admitted{needs: needs}
	a.again = func() (*Caller, error) { return g.judge(ctx, needs, req) }
	caller, err := a.again()
	if err != nil {
		return nil, err
	}
	a.caller.Store(caller)
	return context.WithValue(ctx, key{}, a), nil
}

// judge finds the caller of a request and compares its rights with the needs.
func (g *Gate) judge(ctx context.Context, needs wire.Needs, req any) (*Caller, error) {
	began := time.Now()
	caller, err := g.Caller(secretOf(req))
	g.Metrics.Since("nomad.acl.resolveToken", began)
	if err != nil {
		caller, err = g.node(ctx, req)
	}
	if needs.Who == wire.Open {
		if err != nil {
			caller = g.anonymous()
		}
		return caller, nil
	}
	if err != nil {
		return nil, err
	}
	ok := false
	switch needs.Who {
	case wire.Judged:
		ok = true
	case wire.AnyToken:
		ok = !caller.Anonymous() && caller.NodeID == "" && caller.Identity == nil
	case wire.Management:
		ok = caller.Rights.IsManagement()
	case wire.Holder:
		ok = caller.Rights.IsManagement() || caller.own(needs, req) || caller.holds(needs, req)
	}
	if !ok {
		return nil, ErrDenied
	}
	return caller, nil
}

// secretOf returns the secret that a request carries.
func secretOf(req any) string {
	if r, ok := req.(api.Authenticated); ok {
		return *r.Secret()
	}
	return ""
}

// own reports whether a node asks for something of its own.
func (c *Caller) own(needs wire.Needs, req any) bool {
	r, ok := req.(api.OfNode)
	if c.NodeID == "" || !ok || r.OfNode() != c.NodeID {
		return false
	}
	for _, n := range needs.All {
		if n.On != api.OnNode {
			return false
		}
	}
	return true
}

// holds reports whether the caller's rights are sufficient, as far as can be known before the service looks at the rows.
func (c *Caller) holds(needs wire.Needs, req any) bool {
	for _, n := range needs.All {
		ok := true
		switch n.In {
		case wire.Single:
			ok = c.Rights.Allows(n.Right, "")
		case wire.InRow:
			ok = c.Rights.AllowsSomewhere(n.Right)
		case wire.InRequest:
			ok = c.inAll(n.Right, req)
		}
		if !ok {
			return false
		}
	}
	return true
}

// inAll reports whether a right holds in all namespaces of a request.
func (c *Caller) inAll(r api.Right, req any) bool {
	of, ok := req.(api.Namespaced)
	if !ok {
		return false
	}
	names := of.Namespaces()
	_, writes := req.(interface{ Writes() *api.WriteRequest })
	for _, name := range names {
		switch name = cmp.Or(name, api.DefaultNamespace); {
		case name != api.AllNamespaces:
			ok = c.Rights.Allows(r, name)
		default:
			ok = !writes && c.Rights.AllowsSomewhere(r)
		}
		if !ok {
			return false
		}
	}
	return len(names) > 0
}

// Caller finds who has a secret.
func (g *Gate) Caller(secret string) (*Caller, error) {
	if secret == "" {
		return g.anonymous(), nil
	}
	if identity.IsToken(secret) {
		return g.workload(secret)
	}
	c := g.cache.get(g.State, secret, func(tx *state.Txn) *Caller { return find(tx, secret, g.cache.parse) })
	if c == nil || c.Token.Expired(g.Now()) {
		return nil, ErrDenied
	}
	return c, nil
}

func (g *Gate) anonymous() *Caller {
	return g.cache.get(g.State, "", func(tx *state.Txn) *Caller {
		t := &api.ACLToken{AccessorID: api.AnonymousAccessor, Name: "Anonymous Token", Type: api.ACLClientToken, Policies: []string{api.AnonymousPolicy}}
		return callerOf(tx, t, g.cache.parse)
	})
}

// find returns the caller with a secret, or nil.
func find(tx *state.Txn, secret string, parse func(*api.ACLPolicy) *policy.Policy) *Caller {
	t := tx.ACLTokenBySecret(secret)
	if t == nil {
		return nil
	}
	return callerOf(tx, t, parse)
}

// node returns the caller of a request whose secret is that of the node which it is about.
func (g *Gate) node(ctx context.Context, req any) (*Caller, error) {
	r, ok := req.(api.OfNode)
	if !ok || g.VerifyNode == nil || g.VerifyNode(ctx, r.OfNode(), secretOf(req)) != nil {
		return nil, ErrDenied
	}
	t := &api.ACLToken{AccessorID: "node " + r.OfNode(), Type: api.ACLClientToken}
	return &Caller{Token: t, Rights: nothing, NodeID: r.OfNode()}, nil
}

// AdmitOnNode admits a request that a node serves, compares the namespace of the allocation that it is about, and returns
// the accessor of the caller; "" without access control.
func (g *Gate) AdmitOnNode(ctx context.Context, needs wire.Needs, req any) (accessor string, err error) {
	if !g.Enabled || ctx.Value(internalKey{}) != nil {
		return "", nil
	}
	defer g.Metrics.Since("nomad.acl.accessorForSecretToken", time.Now())
	caller, err := g.judge(ctx, needs, req)
	if err != nil {
		return "", err
	}
	if of, ok := req.(api.OfAlloc); ok {
		for _, n := range needs.All {
			if err := g.OnAlloc(caller, n.Right, of.OfAlloc()); err != nil {
				return "", err
			}
		}
	}
	return caller.Token.AccessorID, nil
}

// OnAlloc compares a right with the namespace of an allocation. One that the caller may not see is answered like one that
// does not exist.
func (g *Gate) OnAlloc(c *Caller, r api.Right, id string) error {
	a := g.State.Read().Alloc(id)
	switch {
	case a == nil, !c.Rights.Sees(a.Namespace):
		return fault.New(fault.NotFound, "Unknown allocation %q", id)
	case !c.Rights.Allows(r, a.Namespace):
		return ErrDenied
	}
	return nil
}
