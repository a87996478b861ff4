package rpc_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// large answers more than a message may have.
func large(context.Context, *api.NodeListRequest) (*api.NodeListResponse, error) {
	return &api.NodeListResponse{Nodes: []*api.NodeStub{{Name: strings.Repeat("x", transport.MaxMessageBytes)}}}, nil
}

// What does not fit into a message is read from the follower's own state, once that is as new as the leader's.
func TestAListThatFitsNoMessageIsReadWhereItIsAsked(t *testing.T) {
	t.Parallel()
	store := state.New()
	commit := func(index uint64) { store.Write(index, time.Now()).Commit() }
	commit(5)
	asked := make(chan struct{})
	leader := start(t, wire.NodeList.Handle(large), wire.StatusPeerInfo.Handle(func(context.Context, *api.Empty) (*api.PeerInfoResponse, error) {
		close(asked)
		return &api.PeerInfoResponse{Applied: 7}, nil
	}))
	raft := &cluster{}
	raft.address.Store(leader.port.Addr().String())
	follower := rpc.New(rpc.Config{Log: hclog.NewNullLogger(), Raft: raft, Dialer: leader.dialer, State: store, Hold: time.Minute})
	var index uint64
	follower.Handle(wire.NodeList.Handle(func(context.Context, *api.NodeListRequest) (*api.NodeListResponse, error) {
		index = store.Read().Index()
		return &api.NodeListResponse{Nodes: []*api.NodeStub{{Name: "own"}}}, nil
	}))
	go func() {
		<-asked
		commit(6)
		commit(7)
	}()
	got, err := wire.NodeList.Call(t.Context(), follower, &api.NodeListRequest{})
	if err != nil || got.Nodes[0].Name != "own" || index != 7 {
		t.Errorf("%v at index %d: %v", got, index, err)
	}
}

func TestAListThatFitsNoMessageIsRefusedElsewhere(t *testing.T) {
	t.Parallel()
	leader := start(t, wire.NodeList.Handle(large), wire.StatusPeerInfo.Handle(func(context.Context, *api.Empty) (*api.PeerInfoResponse, error) {
		return &api.PeerInfoResponse{}, nil // a server of before, which does not say
	}))
	if _, err := wire.NodeList.Call(t.Context(), leader.connect(t), &api.NodeListRequest{}); !errors.Is(err, fault.TooLarge) {
		t.Errorf("over the network: %v", err)
	}
	s, raft, _ := patient(t, time.Minute, nil, named("this")...)
	raft.address.Store(leader.port.Addr().String())
	if _, err := wire.NodeList.Call(t.Context(), s, &api.NodeListRequest{}); !errors.Is(err, fault.TooLarge) {
		t.Errorf("through a follower without a state: %v", err)
	}
	store := state.New()
	follower := rpc.New(rpc.Config{Log: hclog.NewNullLogger(), Raft: raft, Dialer: leader.dialer, State: store, Hold: time.Minute})
	follower.Handle(named("this")...)
	if _, err := wire.NodeList.Call(t.Context(), follower, &api.NodeListRequest{}); !errors.Is(err, fault.TooLarge) {
		t.Errorf("behind a leader that does not say where it is: %v", err)
	}
}
