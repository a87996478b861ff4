package regions

import (
	"context"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// globalWrites are the methods that write objects of all regions.
var globalWrites = []string{
	wire.ACLBootstrap.Name, wire.ACLPolicyUpsert.Name, wire.ACLPolicyDelete.Name, wire.ACLRoleUpsert.Name, wire.ACLRoleDelete.Name,
	wire.ACLAuthMethodUpsert.Name, wire.ACLAuthMethodDelete.Name, wire.ACLBindingRuleUpsert.Name, wire.ACLBindingRuleDelete.Name,
}

// Forwarded makes methods that write global objects call the authoritative region.
func (s *Regions) Forwarded(handlers ...wire.Handler) []wire.Handler {
	if !s.Elsewhere() {
		return handlers
	}
	for i, h := range handlers {
		handlers[i].Serve = func(ctx context.Context, req any) (any, error) {
			w, writes := req.(interface{ Writes() *api.WriteRequest })
			if !writes || !slices.Contains(globalWrites, h.Name) && !global(s.State.Read(), req) {
				return h.Serve(ctx, req)
			}
			w.Writes().Region = s.Authoritative
			resp := h.NewReply()
			if err := s.Servers.Invoke(ctx, h.Name, req, resp); err != nil {
				return nil, err
			}
			return resp, nil
		}
	}
	return handlers
}

// global reports whether a request writes a global token, or logs in for one.
func global(tx *state.Txn, req any) bool {
	token := func(accessor string) bool {
		t := tx.ACLToken(accessor)
		return t != nil && t.Global
	}
	method := func(name string) bool {
		m := tx.ACLAuthMethod(name)
		return m != nil && m.TokenLocality == api.TokenLocalityGlobal
	}
	switch r := req.(type) {
	case *api.ACLTokenUpsertRequest:
		return r.Token != nil && (token(r.Token.AccessorID) || r.Token.AccessorID == "" && r.Token.Global)
	case *api.ACLTokenDeleteRequest:
		return slices.ContainsFunc(r.AccessorIDs, token)
	case *api.ACLLoginRequest:
		return method(r.AuthMethodName)
	case *api.ACLOIDCAuthURLRequest:
		return method(r.AuthMethodName)
	case *api.ACLOIDCCompleteAuthRequest:
		return method(r.AuthMethodName)
	}
	return false
}
