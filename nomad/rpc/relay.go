package rpc

import (
	"context"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// askTimeout limits the search for the server that a node is connected to.
const askTimeout = 2 * time.Second

// relays remember which server holds a node that is not connected here.
type relays struct {
	mu sync.Mutex
	by map[string]string
}

func (r *relays) get(node string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[node]
}

// set remembers the server, or with an empty address forgets it.
func (r *relays) set(node, address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[string]string{}
	}
	if address == "" {
		delete(r.by, node)
		return
	}
	r.by[node] = address
}

// others are the servers of this region, without this one.
func (s *Server) others() []string {
	if s.config.Servers == nil {
		return nil
	}
	var out []string
	for _, a := range s.config.Servers(s.config.Region) {
		if a != s.config.Address {
			out = append(out, a)
		}
	}
	return out
}

// relayed calls a node through the server that holds it.
type relayed struct {
	server *Server
	node   string
}

// Invoke finds the server again for each call, so that a caller may be kept. It implements [wire.Caller].
func (r relayed) Invoke(ctx context.Context, method string, req, resp any) error {
	if direct, err := r.server.nodes.get(r.node); err == nil {
		return direct.Invoke(ctx, method, req, resp)
	}
	body, into, err := wire.Coded(req, resp)
	if err != nil {
		return err
	}
	address, err := r.server.holder(ctx, r.node)
	if err != nil {
		return err
	}
	conn, err := r.server.peers.to("", address)
	if err != nil {
		return err
	}
	out, err := wire.NodeRelay.Call(ctx, conn, &api.RelayRequest{NodeID: r.node, Method: method, Body: body})
	if err != nil {
		r.server.relays.set(r.node, "")
		return err
	}
	if !out.Held {
		r.server.relays.set(r.node, "")
		return notConnected(r.node)
	}
	_, err = into.UnmarshalMsg(out.Body)
	return err
}

// holder finds the server that a node is connected to: the last known one, or the first that reports it.
func (s *Server) holder(ctx context.Context, node string) (string, error) {
	if address := s.relays.get(node); address != "" {
		return address, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	all := s.others()
	found := make(chan string, len(all))
	for _, address := range all {
		go func() {
			if !s.holds(ctx, address, node) {
				address = ""
			}
			found <- address
		}()
	}
	for range all {
		if address := <-found; address != "" {
			s.relays.set(node, address)
			return address, nil
		}
	}
	return "", notConnected(node)
}

func (s *Server) holds(ctx context.Context, address, node string) bool {
	conn, err := s.peers.to("", address)
	if err != nil {
		return false
	}
	out, err := wire.NodeRelay.Call(ctx, conn, &api.RelayRequest{NodeID: node})
	return err == nil && out.Held
}

// Relay passes a call of another server on to a node that is connected here, never further.
func (s *Server) Relay(ctx context.Context, r *api.RelayRequest) (*api.RelayResponse, error) {
	node, err := s.nodes.get(r.NodeID)
	if err != nil {
		return &api.RelayResponse{}, nil //nolint:nilerr // the node is not connected here
	}
	out := &api.RelayResponse{Held: true}
	if r.Method == "" {
		return out, nil
	}
	req, resp := raw(r.Body), raw(nil)
	if err := node.Invoke(ctx, r.Method, &req, &resp); err != nil {
		return nil, err
	}
	out.Body = resp
	return out, nil
}

// CallNode forwards a user's call to a node of this region, through the server that it is connected to.
func (s *Server) CallNode(ctx context.Context, r *api.NodeCallRequest) (*api.RelayResponse, error) {
	req, err := decoded(ctx, r.Method, r.Body)
	if err != nil {
		return nil, err
	}
	node, err := s.Node(r.NodeID)
	if err != nil {
		return nil, err
	}
	resp := raw(nil)
	if err := node.Invoke(ctx, r.Method, req, &resp); err != nil {
		return nil, err
	}
	return &api.RelayResponse{Held: true, Body: resp}, nil
}

// raw is an encoded message.
type raw []byte

// MarshalMsg implements [msgp.Marshaler].
func (r *raw) MarshalMsg(b []byte) ([]byte, error) { return append(b, *r...), nil }

// UnmarshalMsg implements [msgp.Unmarshaler].
func (r *raw) UnmarshalMsg(b []byte) ([]byte, error) {
	*r = append(raw(nil), b...)
	return nil, nil
}

// Msgsize implements [msgp.Sizer].
func (r *raw) Msgsize() int { return len(*r) }

func notConnected(node string) error {
	return fault.New(fault.Unavailable, "node %q is not connected", node)
}
