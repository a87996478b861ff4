package rpc

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/shape"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/certs"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
	"github.com/open-nomad/open-nomad/nomad/identity"
)

type serve = func(context.Context, any) (any, error)

// guarded adds the interceptors to a handler. Every server on the way checks the caller. The server that serves the call
// checks the secret of a node right before, even when it won an election while it held the call.
func (s *Server) guarded(h wire.Handler) wire.Handler {
	h.Serve = s.admitted(h, rejectNulls(h, s.regional(h, s.led(h, s.proven(h, s.permitted(h, s.stamped(s.counted(h, limitCPU(h)))))))))
	h = transport.Recovered(h, s.config.Log)
	h.Serve = s.observed(h)
	return h
}

func (s *Server) observed(h wire.Handler) serve {
	next := h.Serve
	if s.config.Metrics == nil {
		return next
	}
	m := s.meterOf(h)
	return func(ctx context.Context, req any) (any, error) {
		start := time.Now()
		resp, err := next(ctx, req)
		m.done(start, err)
		return resp, err
	}
}

// admitted rejects callers whose certificate does not permit the method.
func (s *Server) admitted(h wire.Handler, next serve) serve {
	return func(ctx context.Context, req any) (any, error) {
		if p := transport.PeerOf(ctx); p.Remote() {
			if err := s.may(p, h); err != nil {
				return nil, err
			}
			if p.Instance != "" && h.Auth == wire.ByNode {
				// A caller with a wrong credential is rejected where the credential is verified. One with the secret of the node
				// may be a copy of it, which could register with an introduction.
				who := nodeOf(req)
				if err := s.verify(ctx, who); !errors.Is(err, fault.Denied) || errors.Is(err, identity.ErrBound) {
					if err := s.nodes.taken(ctx, who.NodeID, p.Instance, p.Address); err != nil {
						return nil, err
					}
				}
			}
		}
		return next(ctx, req)
	}
}

// may checks whether the certificate of a remote caller permits a method.
func (s *Server) may(p transport.Peer, h wire.Handler) error {
	home := p.Of(s.config.Region)
	switch {
	case (h.Auth == wire.ByServer || h.Auth == wire.ByPeer) && !s.amongServers(p, h):
		return fault.New(fault.Denied, "%s is for servers; the certificate of %s does not prove one", h.Name, p.Address)
	case h.Auth == wire.ByOperator && (p.Role == certs.RoleClient || p.Role == certs.RoleCLI):
		return fault.New(fault.Denied, "%s is for operators: ask the HTTP API of a server", h.Name)
	case h.Auth == wire.ByNode && p.Role == certs.RoleCLI:
		return fault.New(fault.Denied, "%s is for nodes", h.Name)
	case !home && (p.Role != certs.RoleServer || h.Auth == wire.ByServer || h.Auth == wire.ByPeer || h.Auth == wire.ByNode): // servers of other regions forward what users ask
		return fault.New(fault.Denied, "%s: the certificate of %s is a %s's of region %q, and this server is of region %q",
			h.Name, p.Address, p.Role, p.Region, s.config.Region)
	}
	return nil
}

// limitCPU runs heavy methods as long work. Reads are limited in [Block].
func limitCPU(h wire.Handler) serve {
	if !h.Heavy {
		return h.Serve
	}
	return func(ctx context.Context, req any) (resp any, err error) {
		err = cpulimit.Long(ctx, func() error {
			resp, err = h.Serve(ctx, req)
			return err
		})
		return resp, err
	}
}

// proven rejects nodes with a wrong secret.
func (s *Server) proven(h wire.Handler, next serve) serve {
	if h.Auth != wire.ByNode || h.Name == wire.NodeRegister.Name { // that service checks or records the secret in the raft entry
		return next
	}
	checked := func(ctx context.Context, req any) (any, error) {
		node := nodeOf(req)
		if node.NodeID == "" {
			return nil, fault.New(fault.Denied, "%s is for nodes", h.Name)
		}
		err := s.verify(ctx, node)
		switch {
		case err == nil:
			return next(ctx, req)
		case h.Name != wire.NodeHeartbeat.Name && (errors.Is(err, identity.ErrExpired) || errors.Is(err, identity.ErrUnknownKey)):
			// After the refusal of its next heartbeat the node has a new identity: what it calls for must not fail until then.
			return nil, fault.New(fault.Unavailable, "the node registers again before this: %v", err)
		}
		return nil, err
	}
	return func(ctx context.Context, req any) (any, error) {
		if !s.config.Raft.IsLeader() {
			// The state of this server may be old: the leader decides.
			if node := nodeOf(req); node.NodeID != "" && s.verify(ctx, node) != nil {
				return s.forward(ctx, h, req, checked)
			}
		}
		return checked(ctx, req)
	}
}

// rejectNulls rejects requests with nulls in lists and maps. Requests from the network were checked when they were decoded,
// and requests of other servers come from this program.
func rejectNulls(h wire.Handler, next serve) serve {
	if h.Auth == wire.ByServer || h.Auth == wire.ByPeer {
		return next
	}
	return func(ctx context.Context, req any) (any, error) {
		if !transport.PeerOf(ctx).Remote() {
			if err := shape.Input(req); err != nil {
				return nil, err
			}
		}
		return next(ctx, req)
	}
}

// amongServers reports whether a remote peer may call a server method. Without certificates the servers must still reach
// each other: then any peer may call local methods, and a peer on the host of a living server the leader's and the secret ones.
func (s *Server) amongServers(p transport.Peer, h wire.Handler) bool {
	if p.Role != certs.Unproven {
		return p.Role == certs.RoleServer
	}
	if h.Scope == wire.Local && h.Auth != wire.ByPeer {
		return true
	}
	return (h.Scope == wire.Leader || h.Auth == wire.ByPeer) && s.hostOfServer(p.Address)
}

func (s *Server) hostOfServer(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && slices.ContainsFunc(s.others(), func(server string) bool {
		of, _, err := net.SplitHostPort(server)
		return err == nil && of == host
	})
}

// nodeOf returns the node that makes a request; empty for requests of others.
func nodeOf(req any) transport.Hello {
	r, ok := req.(api.ByNode)
	if !ok {
		return transport.Hello{}
	}
	id, secret := r.NodeCredentials()
	return transport.Hello{NodeID: id, Secret: secret}
}

func (s *Server) stamped(next serve) serve {
	return func(ctx context.Context, req any) (any, error) {
		resp, err := next(ctx, req)
		if err == nil {
			s.stamp(resp)
		}
		return resp, err
	}
}
