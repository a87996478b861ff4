package nodes_test

import (
	"context"
	"errors"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// verified is a log whose server leads as long as verify says so.
type verified struct {
	fsm.Leader
	verify func(context.Context) error
}

func (v verified) VerifyLeader(ctx context.Context) error { return v.verify(ctx) }

func TestHeartbeatsAreAnsweredByALeaderWithItsVoters(t *testing.T) {
	s := state.New()
	var deposed error
	voters, settled := &api.Voters{Index: 7, Servers: map[string]string{"s1": "127.0.0.1:4647"}}, true
	r := nodes.New(nodes.Config{
		Log: hclog.NewNullLogger(), State: s, Raft: verified{fsm.NewLocal(s, registry()), func(context.Context) error { return deposed }},
		Voters: func() (*api.Voters, bool, error) { return voters, settled, nil },
	})
	got, err := r.Register(t.Context(), &api.NodeRegisterRequest{Node: node("n1")})
	if err != nil || got.Voters != voters {
		t.Errorf("registration: voters %v, %v", got, err)
	}
	beat := &api.NodeHeartbeatRequest{NodeID: "n1", NodeSecret: "secret of n1", Status: api.NodeStatusReady}
	if got, err = r.Heartbeat(t.Context(), beat); err != nil || got.Voters != voters {
		t.Errorf("heartbeat: %v, %v", got, err)
	}
	settled = false
	if got, err = r.Heartbeat(t.Context(), beat); err != nil || got.Voters != nil {
		t.Errorf("voters that may not be committed were told: %v, %v", got, err)
	}
	deposed = fault.New(fault.NotLeader, "another leads")
	if _, err = r.Heartbeat(t.Context(), beat); !errors.Is(err, fault.NotLeader) {
		t.Errorf("a server that leads no more answered: %v", err)
	}
}
