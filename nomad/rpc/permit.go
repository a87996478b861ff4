package rpc

import (
	"context"
	"errors"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/nomad/access"
)

// permitted refuses calls that the token of the caller does not permit. It is the last interceptor before the handler, so
// that the server that serves a call decides from the state that it serves.
func (s *Server) permitted(h wire.Handler, next serve) serve {
	if s.config.Gate == nil || h.Needs.Who == wire.Internal {
		return next
	}
	checked := func(ctx context.Context, req any) (any, error) {
		ctx, err := s.config.Gate.Admit(ctx, h.Needs, req)
		if err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
	return func(ctx context.Context, req any) (any, error) {
		resp, err := checked(ctx, req)
		// The state of this server may be older than the token: the leader decides.
		if errors.Is(err, access.ErrDenied) && h.Scope == wire.Any && !s.config.Raft.IsLeader() {
			return s.forward(ctx, h, req, checked)
		}
		return resp, err
	}
}

// onNode passes calls of users to a node after the gate admitted them. It takes the token out: nodes do not need it.
type onNode struct {
	server *Server
	node   wire.Caller
}

// Invoke implements [wire.Caller].
func (n onNode) Invoke(ctx context.Context, method string, req, resp any) error {
	if m, ok := wire.NodeMethods[method]; ok && m.Auth == wire.ByUser {
		accessor, err := n.server.permitOnNode(ctx, m.Needs, req)
		if err != nil {
			return err
		}
		if r, ok := req.(api.Attributed); ok {
			r.SetAccessor(accessor)
		}
		if r, ok := req.(api.Authenticated); ok {
			secret := r.Secret()
			kept := *secret
			*secret = ""
			defer func() { *secret = kept }()
		}
	}
	if n.server.config.Metrics != nil {
		defer n.server.config.Metrics.Since(MetricName(method), time.Now())
	}
	return n.node.Invoke(ctx, method, req, resp)
}

// permitOnNode admits a call of a user to a node and returns the accessor of the caller. A server that does not lead asks the
// leader when its own state refuses: that may be older than the token or the allocation.
func (s *Server) permitOnNode(ctx context.Context, needs wire.Needs, req any) (accessor string, err error) {
	gate := s.config.Gate
	if gate == nil || !gate.Enabled {
		return "", nil
	}
	accessor, err = gate.AdmitOnNode(ctx, needs, req)
	if err == nil || s.config.Raft.IsLeader() {
		return accessor, err
	}
	r, ok := req.(api.Authenticated)
	if !ok || len(needs.All) == 0 {
		return "", err
	}
	for _, n := range needs.All {
		ask := &api.ACLCheckRequest{Right: n.Right, QueryOptions: api.QueryOptions{AuthToken: *r.Secret()}}
		if of, ok := req.(api.OfAlloc); ok {
			ask.AllocID = of.OfAlloc()
		}
		out, err := wire.ACLCheck.Call(ctx, s, ask)
		if err != nil {
			return "", err
		}
		accessor = out.AccessorID
	}
	return accessor, nil
}

// decoded reads the request of a method that a node serves for users.
func decoded(ctx context.Context, method string, body []byte) (any, error) {
	m, ok := wire.NodeMethods[method]
	if !ok || m.Auth != wire.ByUser {
		return nil, fault.New(fault.Denied, "%q is no call of users to nodes", method)
	}
	req := m.New()
	if err := transport.DecodeRequest(ctx, body, req); err != nil {
		return nil, fault.Wrap(fault.Invalid, err)
	}
	return req, nil
}
