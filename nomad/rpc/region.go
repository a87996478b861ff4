package rpc

import (
	"context"
	"math/rand/v2"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/transport"
)

// regional sends what users ask of another region to a server there, and refuses its nodes.
func (s *Server) regional(h wire.Handler, next serve) serve {
	if h.Auth == wire.ByNode && s.config.Region != "" {
		return func(ctx context.Context, req any) (any, error) {
			if region := regionOf(req); region != "" && region != s.config.Region {
				return nil, fault.New(fault.Invalid, "the node is of region %q and this server of region %q: give the node servers of its own", region, s.config.Region)
			}
			return next(ctx, req)
		}
	}
	if h.Auth != wire.ByUser && h.Auth != wire.ByOperator || s.config.Servers == nil {
		return next
	}
	return func(ctx context.Context, req any) (any, error) {
		region := regionOf(req)
		if region == "" || region == s.config.Region {
			return next(ctx, req)
		}
		return s.inRegion(ctx, h, req, region)
	}
}

func regionOf(req any) string {
	switch r := req.(type) {
	case interface{ Options() *api.QueryOptions }:
		return r.Options().Region
	case interface{ Writes() *api.WriteRequest }:
		return r.Writes().Region
	}
	return ""
}

// inRegion asks the servers of a region in random order until one can be reached.
func (s *Server) inRegion(ctx context.Context, h wire.Handler, req any, region string) (any, error) {
	hops := transport.PeerOf(ctx).Hops + 1
	if hops > hopsMax {
		return nil, fault.New(fault.Unavailable, "%s was forwarded %d times and did not get to region %q", h.Name, hopsMax, region)
	}
	err := fault.New(fault.Invalid, "No path to region")
	all := s.config.Servers(region)
	if len(all) > 0 { // any name may come in
		s.config.Metrics.Count(metricRegion+region, 1)
	}
	for _, i := range rand.Perm(len(all)) {
		conn, dialErr := s.peers.to(region, all[i])
		if dialErr == nil {
			dialErr = ready(ctx, conn)
		}
		if dialErr != nil {
			err = fault.New(fault.Unavailable, "region %q: %w", region, dialErr)
			continue
		}
		resp := h.NewReply()
		if err := conn.Invoke(transport.WithHops(ctx, hops), h.Name, req, resp); err != nil {
			return nil, err
		}
		return resp, nil
	}
	return nil, err
}
