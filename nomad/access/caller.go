package access

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/acl/policy"
	"github.com/open-nomad/open-nomad/nomad/identity"
)

// ErrDenied is the refusal of all that a token does not permit.
var ErrDenied = fault.New(fault.Denied, "Permission denied")

// Caller is who makes a call, and what it may do.
type Caller struct {
	// Token is that of the caller. Callers without one have the token with the accessor [api.AnonymousAccessor].
	Token *api.ACLToken
	// Rights are what the policies of the token permit.
	Rights *policy.Rights
	// NodeID is set when the caller is a node that authenticated with its secret.
	NodeID string
	// Identity is set when the caller is a workload that authenticated with its signed identity. Its Token is stored nowhere.
	Identity *identity.Claims
}

// Anonymous reports whether the caller has no token.
func (c *Caller) Anonymous() bool { return c.Token.AccessorID == api.AnonymousAccessor }

// everyone is the caller of a cluster without access control, and of the servers themselves.
var everyone = &Caller{Token: &api.ACLToken{Type: api.ACLManagementToken}, Rights: policy.Everything()}

// admitted is what the context of a call carries.
type admitted struct {
	caller atomic.Pointer[Caller]
	needs  wire.Needs
	// again admits the call once more; nil without access control.
	again func() (*Caller, error)
}

type key struct{}

func from(ctx context.Context) *admitted {
	a, _ := ctx.Value(key{}).(*admitted)
	return a
}

// Of returns the caller. Calls that no gate admitted, such as those of tests and of this server itself, may do everything.
func Of(ctx context.Context) *Caller {
	if a := from(ctx); a != nil {
		return a.caller.Load()
	}
	return everyone
}

// Enabled reports whether the call was admitted by a gate with access control.
func Enabled(ctx context.Context) bool {
	a := from(ctx)
	return a != nil && a.again != nil
}

// Sees reports whether the caller has the right that its method needs on a row with this namespace or pool.
func Sees(ctx context.Context, name string) bool {
	a := from(ctx)
	if a == nil || a.again == nil {
		return true
	}
	c := a.caller.Load()
	for _, n := range a.needs.All {
		if n.In != wire.Single && !c.Rights.Allows(n.Right, name) {
			return false
		}
	}
	return true
}

// Refusal returns why the caller may not change an object in a namespace, or nil. To callers who see nothing of the
// namespace the object is missing.
func Refusal(ctx context.Context, namespace string, missing error) error {
	switch {
	case Sees(ctx, namespace):
		return nil
	case Of(ctx).Rights.Sees(namespace):
		return ErrDenied
	}
	return missing
}

// Shown returns the id of an object in a namespace, or no id when the caller does not see the object: then the state is
// watched, and the index of the reply is, as for an object that does not exist.
func Shown(ctx context.Context, id, namespace string) string {
	if Sees(ctx, namespace) {
		return id
	}
	return ""
}

// Visible returns a filter of rows by their namespaces; nil shows all of them.
func Visible(ctx context.Context) func(namespace string) bool {
	if !Enabled(ctx) || Of(ctx).Rights.IsManagement() {
		return nil
	}
	return func(namespace string) bool { return Sees(ctx, namespace) }
}

// Again admits the call once more. Blocking reads call it before they read again: the token may have been deleted.
func Again(ctx context.Context) error {
	a := from(ctx)
	if a == nil || a.again == nil {
		return nil
	}
	c, err := a.again()
	if err == nil {
		a.caller.Store(c)
	}
	return err
}

// Expiry returns a channel that receives when the token of the caller expires; nil when it does not.
func Expiry(ctx context.Context) <-chan time.Time {
	if !Enabled(ctx) {
		return nil
	}
	end := Of(ctx).Token.ExpirationTime
	if end == nil {
		return nil
	}
	return time.After(time.Until(*end) + time.Millisecond)
}

type internalKey struct{}

// Internal is the context of calls that this server makes on its own account.
func Internal(ctx context.Context) context.Context {
	return context.WithValue(ctx, internalKey{}, true)
}
