package rpc

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

type serve = func(context.Context, any) (any, error)

// guarded puts the stations before a handler.
func (s *Server) guarded(h wire.Handler) wire.Handler {
	h.Serve = s.regional(h, s.authenticated(h, s.led(h, s.stamped(h.Serve))))
	h = wire.Recovered(h, s.config.Log)
	h.Serve = s.observed(h)
	return h
}

func (s *Server) observed(h wire.Handler) serve {
	next := h.Serve
	if s.config.Observe == nil {
		return next
	}
	return func(ctx context.Context, req any) (any, error) {
		start := time.Now()
		resp, err := next(ctx, req)
		s.config.Observe(h.Name, time.Since(start), err)
		return resp, err
	}
}

func (s *Server) authenticated(h wire.Handler, next serve) serve {
	switch h.Auth {
	case wire.ByNode:
		if h.Name == wire.NodeRegister.Name {
			return next // the room compares or records the secret in the same raft entry
		}
		return func(ctx context.Context, req any) (any, error) {
			id, secret := credentials(req)
			if id == "" {
				return nil, fault.New(fault.Denied, "%s is for nodes", h.Name)
			}
			err := s.verify(ctx, wire.Hello{NodeID: id, Secret: secret})
			if err != nil && !s.config.Raft.IsLeader() {
				// What this server knows may be old, or nothing at all after a start: the leader decides.
				return s.forward(ctx, h, req, next)
			}
			if err != nil {
				return nil, err
			}
			return next(ctx, req)
		}
	case wire.ByServer:
		return func(ctx context.Context, req any) (any, error) {
			if p := wire.PeerOf(ctx); p.Remote() && !s.amongServers(p, h.Scope) {
				return nil, fault.New(fault.Denied, "%s is for servers; the certificate of %s does not prove one", h.Name, p.Address)
			}
			return next(ctx, req)
		}
	default:
		return next
	}
}

// amongServers reports whether a remote peer may call a server method. Where no roles are proven the
// servers must still reach each other: what a server answers about itself is open then, and what the
// leader does for servers is done for who speaks from the host of a living one.
func (s *Server) amongServers(p wire.Peer, scope wire.Scope) bool {
	if p.Role != wire.Unproven {
		return p.Role == wire.RoleServer
	}
	return scope == wire.Local || scope == wire.Leader && s.hostOfServer(p.Address)
}

func (s *Server) hostOfServer(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && slices.ContainsFunc(s.others(), func(server string) bool {
		of, _, err := net.SplitHostPort(server)
		return err == nil && of == host
	})
}

// credentials returns how a node method's request says who calls; empty for unknown requests.
func credentials(req any) (nodeID, secret string) {
	switch r := req.(type) {
	case *api.NodeHeartbeatRequest:
		return r.NodeID, r.NodeSecret
	case *api.NodeAssignmentsRequest:
		return r.NodeID, r.NodeSecret
	case *api.AllocUpdateRequest:
		return r.NodeID, r.NodeSecret
	case *api.VolumeClaimRequest:
		return r.NodeID, r.NodeSecret
	case *api.VolumeUnpublishRequest:
		return r.NodeID, r.NodeSecret
	case *api.VolumeIntentRequest:
		return r.NodeID, r.NodeSecret
	}
	return "", ""
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
