package wire

import (
	"context"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Scope says which process serves a method.
type Scope uint8

// Scopes.
const (
	// Leader methods run on the leader; other servers forward once.
	Leader Scope = iota
	// Any methods are reads: any server answers them when the request allows stale data, else the leader.
	Any
	// Local methods run on the server that was asked.
	Local
	// OnNode methods are served by a client agent, over the connection that it dialled.
	OnNode
)

// Auth says who may call a method.
type Auth uint8

// Callers.
const (
	// ByUser methods are reached through HTTP; a token decides.
	ByUser Auth = iota
	// ByNode methods are called by client agents, which prove themselves by their node's secret.
	ByNode
	// ByServer methods are called between servers, and by servers on nodes.
	ByServer
	// ByPeer methods hand secrets from server to server: as ByServer, and where certificates prove nothing only
	// the hosts of living servers are answered.
	ByPeer
	// ByOperator methods are reached through the HTTP API of a server: no node may call them, nor have one of
	// its users call them.
	ByOperator
)

// Caller carries a call to where its method is served. In-process servers, remote servers and
// nodes are all callers.
type Caller interface {
	// Invoke sends req and fills resp; both are pointers to msgp-coded structs.
	Invoke(ctx context.Context, method string, req, resp any) error
}

// Method is one entry of the method table.
type Method[Req, Resp any] struct {
	Name  string
	Scope Scope
	Auth  Auth
}

// Call invokes the method through c.
func (m Method[Req, Resp]) Call(ctx context.Context, c Caller, req *Req) (*Resp, error) {
	resp := new(Resp)
	if err := c.Invoke(ctx, m.Name, req, resp); err != nil {
		return nil, err
	}
	return resp, nil
}

// Handle binds the method to the function that serves it.
func (m Method[Req, Resp]) Handle(fn func(context.Context, *Req) (*Resp, error)) Handler {
	return Handler{
		Name: m.Name, Scope: m.Scope, Auth: m.Auth,
		New:      func() any { return new(Req) },
		NewReply: func() any { return new(Resp) },
		Serve: func(ctx context.Context, req any) (any, error) {
			r, ok := req.(*Req)
			if !ok {
				return nil, fault.New(fault.Internal, "%s was called with a %T", m.Name, req)
			}
			resp, err := fn(ctx, r)
			if err != nil {
				return nil, err
			}
			return resp, nil
		},
	}
}

// Handler serves one method without its types.
type Handler struct {
	Name  string
	Scope Scope
	Auth  Auth
	// New makes an empty request to decode into.
	New func() any
	// NewReply makes an empty response, for who forwards the call.
	NewReply func() any
	Serve    func(ctx context.Context, req any) (any, error)
}
