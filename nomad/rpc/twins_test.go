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
)

// agent is a process of node n1.
func (s *server) agent(t *testing.T, instance string) (calls wire.Caller, offer func() error, stop func()) {
	t.Helper()
	d := s.dialer
	d.Instance = instance
	conn, err := transport.Connect(s.port.Addr().String(), d)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	stop = func() { cancel(); _ = conn.Close() }
	t.Cleanup(stop)
	return conn, func() error {
		opened := make(chan struct{})
		go func() {
			done <- transport.ServeReverse(ctx, s.port.Addr().String(), d, transport.Hello{NodeID: "n1", Secret: "secret of n1", Instance: instance},
				nil, hclog.NewNullLogger(), func() { close(opened) })
		}()
		select {
		case <-opened:
			return nil
		case err := <-done:
			return err
		}
	}, stop
}

func beat(ctx context.Context, c wire.Caller) error {
	_, err := wire.NodeHeartbeat.Call(ctx, c, &api.NodeHeartbeatRequest{NodeID: "n1", NodeSecret: "secret of n1"})
	return err
}

func TestTheSecondAgentWithANodesIdentityIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t, append(named("s"), wire.NodeRegister.Handle(func(context.Context, *api.NodeRegisterRequest) (*api.NodeUpdateResponse, error) {
		return &api.NodeUpdateResponse{}, nil
	}))...)
	first, offer, stop := s.agent(t, "first")
	if err := offer(); err != nil {
		t.Fatal(err)
	}
	for s.ConnectedNodes() == 0 { // the server takes the connection up after its greeting
		time.Sleep(time.Millisecond)
	}
	second, offerSecond, _ := s.agent(t, "second")
	register := func(c wire.Caller) error {
		_, err := wire.NodeRegister.Call(t.Context(), c, &api.NodeRegisterRequest{Node: &api.Node{ID: "n1", SecretID: "secret of n1"}})
		return err
	}
	// What a copy registers with in place of its identity may be good enough for the service.
	instead := func(n *api.NodeRegisterRequest) error {
		n.Node.ID = "n1"
		_, err := wire.NodeRegister.Call(t.Context(), second, n)
		return err
	}
	for what, err := range map[string]error{
		"registers with an introduction":       instead(&api.NodeRegisterRequest{Node: &api.Node{SecretID: "bound"}, Introduction: "token"}),
		"registers with an identity of no key": instead(&api.NodeRegisterRequest{Node: &api.Node{SecretID: "secret of n1"}, Identity: "unknown key"}),
		"offers a connection":                  offerSecond(), "beats": beat(t.Context(), second), "registers": register(second),
	} {
		if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "another agent that lives at 127.0.0.1:") {
			t.Errorf("the second one %s: %v", what, err)
		}
	}
	if err := errors.Join(beat(t.Context(), first), register(first)); err != nil {
		t.Errorf("the first one: %v", err)
	}
	stop()
	for end := time.Now().Add(30 * time.Second); ; {
		if err := beat(t.Context(), second); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatalf("after the first one has ended: %v", err)
		}
	}
	if err := offerSecond(); err != nil {
		t.Errorf("after the first one has ended: %v", err)
	}
}
