package rpc

import (
	"context"
	"errors"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/internal/retry"
)

// hopsMax bounds how often a call is forwarded: once to another region, once to the leader, and once
// more for a change of leader on the way.
const hopsMax = 3

const (
	// readyTimeout limits one attempt to connect to a server; then the leader is looked up again.
	readyTimeout = 500 * time.Millisecond
	pauseMin     = 10 * time.Millisecond
	pauseMax     = 100 * time.Millisecond
)

// led forwards calls that this server must not serve.
func (s *Server) led(h wire.Handler, next serve) serve {
	return func(ctx context.Context, req any) (any, error) {
		switch {
		case !needsLeader(h.Scope, req):
			return next(ctx, req)
		case !s.config.Raft.IsLeader():
		case h.Scope != wire.Any:
			return s.write(ctx, req, next)
		default:
			if resp, led, err := s.read(ctx, req, next); led {
				return resp, err
			}
		}
		return s.forward(ctx, h, req, next)
	}
}

// read serves a read of the leader. The result is valid only if this server still leads afterwards (led): a leader
// that was frozen or partitioned does not know that another server leads by now.
func (s *Server) read(ctx context.Context, req any, next serve) (resp any, led bool, err error) {
	term := s.config.Raft.Term()
	resp, err = next(ctx, req)
	if lost := s.config.Raft.Leads(ctx, term); lost != nil {
		return nil, !errors.Is(lost, fault.NotLeader), lost
	}
	return resp, true, err
}

// write serves a write of the leader. What brought an entry into the log had a majority; a refusal, or that there was
// nothing to do, may come from a state that another leader has left behind, and counts only if this server still leads.
func (s *Server) write(ctx context.Context, req any, next serve) (any, error) {
	term := s.config.Raft.Term()
	ctx, committed := s.config.Raft.Commits(ctx)
	resp, err := next(ctx, req)
	switch {
	case committed() && errors.Is(err, fault.NotLeader): // after the first of its entries: another leader would begin again
		return nil, fault.New(fault.Unavailable, "the outcome is unknown: %v", err)
	case committed(), errors.Is(err, fault.NotLeader), errors.Is(err, fault.Unavailable):
		return resp, err
	}
	if lost := s.config.Raft.Leads(ctx, term); lost != nil { // an entry may be under way: no other leader is asked
		return nil, fault.New(fault.Unavailable, "the outcome is unknown: %v", lost)
	}
	return resp, err
}

func needsLeader(scope wire.Scope, req any) bool {
	switch scope {
	case wire.Leader:
		return true
	case wire.Any:
		q, ok := req.(interface{ Options() *api.QueryOptions })
		return !ok || !q.Options().Stale
	default:
		return false
	}
}

// forward sends the call to the leader. The first server that receives the call holds it for a while when there
// is no leader, or a new one: next serves the call if this server wins the election.
func (s *Server) forward(ctx context.Context, h wire.Handler, req any, next serve) (any, error) {
	hops := transport.PeerOf(ctx).Hops + 1
	if hops > hopsMax {
		return nil, fault.New(fault.NotLeader, "%s was forwarded %d times and met no leader", h.Name, hopsMax)
	}
	var since time.Time
	for pauses := retry.Between(pauseMin, pauseMax); ; {
		var resp any
		again, err := false, error(nil)
		switch led := s.config.Raft.IsLeader(); {
		case led && h.Scope == wire.Any:
			if resp, led, err = s.read(ctx, req, next); !led {
				again = true
			}
		case led:
			resp, err = s.write(ctx, req, next)
			again = errors.Is(err, fault.NotLeader)
		default:
			leader := s.config.Raft.LeaderAddress()
			resp, again, err = s.toLeader(transport.WithHops(ctx, hops), h, req, leader)
			if h.Scope == wire.Any && errors.Is(err, fault.TooLarge) && s.config.State != nil {
				return s.itself(ctx, req, next, leader, err)
			}
		}
		if err == nil || !again || hops > 1 {
			return resp, err
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) >= s.config.Hold || !pauses.Wait(ctx) {
			return nil, err
		}
	}
}

// toLeader makes one attempt. It returns again when another attempt is safe: nothing was sent, the call was
// refused, or it is a read.
func (s *Server) toLeader(ctx context.Context, h wire.Handler, req any, address string) (resp any, again bool, err error) {
	if address == "" {
		return nil, true, fault.New(fault.NotLeader, "No cluster leader")
	}
	conn, err := s.peers.to("", address)
	if err != nil {
		return nil, false, err
	}
	if err := ready(ctx, conn); err != nil {
		return nil, true, err
	}
	resp = h.NewReply()
	if err := conn.Invoke(ctx, h.Name, req, resp); err != nil {
		again = errors.Is(err, fault.NotLeader) || h.Scope == wire.Any && errors.Is(err, fault.Unavailable)
		return nil, again, err
	}
	return resp, false, nil
}

// itself serves a read whose response is too large to be sent, from a state at least as new as the leader's.
func (s *Server) itself(ctx context.Context, req any, next serve, address string, tooLarge error) (any, error) {
	conn, err := s.peers.to("", address)
	if err != nil {
		return nil, errors.Join(tooLarge, err)
	}
	leader, err := wire.StatusPeerInfo.Call(ctx, conn, &api.Empty{})
	if err != nil || leader.Applied == 0 {
		return nil, errors.Join(tooLarge, err)
	}
	for s.config.State.Read().Index() < leader.Applied {
		if !retry.Sleep(ctx, pauseMin) {
			return nil, ctx.Err()
		}
	}
	return next(ctx, req)
}

func ready(ctx context.Context, conn *transport.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return conn.Ready(ctx)
}

// watch drops the connection to a leader when another one leads: calls that the old leader will not reply to,
// for example because its host lost power, then end at once and not minutes later.
func (s *Server) watch(ctx context.Context) {
	last := ""
	for retry.Sleep(ctx, pauseMax) {
		now := s.config.Raft.LeaderAddress()
		if now == "" || now == last {
			continue
		}
		if last != "" {
			s.peers.drop("", last)
		}
		last = now
	}
}
