package wire

import (
	"context"

	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// Through calls a node through the servers, which know where it is connected. A region that is not
// empty is where the node is.
func Through(servers Caller, region, node string) Caller { return through{servers, region, node} }

type through struct {
	servers      Caller
	region, node string
}

// Invoke implements [Caller].
func (t through) Invoke(ctx context.Context, method string, req, resp any) error {
	body, into, err := Coded(req, resp)
	if err != nil {
		return err
	}
	call := &api.NodeCallRequest{NodeID: t.node, Method: method, Body: body}
	call.Region, call.AuthToken = t.region, secretOf(req)
	out, err := NodeCall.Call(ctx, t.servers, call)
	if err != nil {
		return err
	}
	_, err = into.UnmarshalMsg(out.Body)
	return err
}

// secretOf returns the token in a request.
func secretOf(req any) string {
	if r, ok := req.(api.Authenticated); ok {
		return *r.Secret()
	}
	return ""
}

// NodeMethod is a method that nodes serve for users.
type NodeMethod struct {
	Auth  Auth
	Needs Needs
	// New makes an empty request.
	New func() any
}

// NodeMethods are the methods that nodes serve for users, by name.
var NodeMethods = map[string]NodeMethod{}

func userMethod[Req, Resp any](m Method[Req, Resp]) {
	NodeMethods[m.Name] = NodeMethod{Auth: m.Auth, Needs: m.Needs, New: func() any { return new(Req) }}
}

func init() {
	userMethod(ClientAllocRestart)
	userMethod(ClientAllocSignal)
	userMethod(ClientAllocPause)
	userMethod(ClientAllocPauseState)
	userMethod(ClientAllocStats)
	userMethod(ClientAllocChecks)
	userMethod(ClientAllocLogs)
	userMethod(ClientAllocFileList)
	userMethod(ClientAllocFileStat)
	userMethod(ClientAllocFileRead)
	userMethod(ClientAllocGC)
	userMethod(ClientAllocExecOpen)
	userMethod(ClientAllocExec)
	userMethod(ClientAllocNodeExec)
	userMethod(ClientNodeStats)
	userMethod(ClientAgentMonitor)
	userMethod(ClientAgentHost)
	userMethod(ClientAgentProfile)
	userMethod(ClientNodeMeta)
	userMethod(ClientNodeMetaApply)
	userMethod(ClientNodeGC)
	userMethod(ClientNodeIdentity)
	userMethod(ClientNodeIdentityRenew)
}

// Coded encodes a request to be sent inside another one, and returns the decoder of the reply.
func Coded(req, resp any) ([]byte, msgp.Unmarshaler, error) {
	from, ok := req.(msgp.Marshaler)
	into, ok2 := resp.(msgp.Unmarshaler)
	if !ok || !ok2 {
		return nil, nil, fault.New(fault.Internal, "a call with a %T and a %T cannot be passed on", req, resp)
	}
	body, err := from.MarshalMsg(nil)
	return body, into, err
}
