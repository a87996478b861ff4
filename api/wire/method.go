package wire

import (
	"context"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Scope is the kind of process that serves a method.
type Scope uint8

// Scopes.
const (
	// Leader methods run on the leader; other servers forward them.
	Leader Scope = iota
	// Any methods are reads: any server serves them when the request allows stale data, else the leader.
	Any
	// Local methods run on the server that receives the call.
	Local
	// OnNode methods run on a client agent, over the connection that it dialed.
	OnNode
)

// Auth is the kind of caller that a method permits.
type Auth uint8

// Callers.
const (
	// ByUser methods are called through HTTP; a token decides.
	ByUser Auth = iota
	// ByNode methods are called by client agents, which authenticate with their node's secret.
	ByNode
	// ByServer methods are called between servers, and by servers on nodes.
	ByServer
	// ByPeer methods carry secrets between servers or reach nodes: as ByServer, but without certificates only the hosts of living servers
	// may call them.
	ByPeer
	// ByOperator methods are called through the HTTP API of a server; neither nodes nor their users may call them.
	ByOperator
)

// Caller sends a call to the process that serves its method: a server in the same process, a remote server or a node.
type Caller interface {
	// Invoke sends req and fills resp; both are pointers to msgp-coded structs.
	Invoke(ctx context.Context, method string, req, resp any) error
}

// Method is one entry of the method table.
type Method[Req, Resp any] struct {
	Name  string
	Scope Scope
	Auth  Auth
	// Needs is what a token must permit.
	Needs Needs
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
		Name: m.Name, Scope: m.Scope, Auth: m.Auth, Needs: m.Needs, Heavy: heavy[m.Name],
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

// Handler serves one method; requests and replies are untyped.
type Handler struct {
	Name  string
	Scope Scope
	Auth  Auth
	Needs Needs
	// Heavy methods compute for up to seconds; few run at once.
	Heavy bool
	// New makes an empty request to decode into.
	New func() any
	// NewReply makes an empty response for a server that forwards the call.
	NewReply func() any
	Serve    func(ctx context.Context, req any) (any, error)
}
