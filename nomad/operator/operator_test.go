package operator_test

import (
	"context"
	"errors"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/operator"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func registry() *fsm.Registry { return fsm.NewRegistry(operator.Commands) }

type single struct{ *fsm.Local }

func (single) LeaderAddress() string { return "127.0.0.1:4647" }
func (single) Configuration() (*api.RaftConfiguration, error) {
	return &api.RaftConfiguration{Servers: []*api.RaftServer{{ID: "s1", Address: "127.0.0.1:4647", Leader: true, Voter: true}}}, nil
}

func (single) Voters() (*api.Voters, bool, error) {
	return &api.Voters{Index: 1, Servers: map[string]string{"s1": "127.0.0.1:4647"}}, true, nil
}

func open(t *testing.T) *operator.Service {
	t.Helper()
	s := state.New()
	return operator.New(operator.Config{State: s, Raft: single{fsm.NewLocal(s, registry())}, NameOf: func(id string) string { return id + ".global" }})
}

func TestSchedulerConfigComparesAndSets(t *testing.T) {
	t.Parallel()
	r := open(t)
	set := func(c *api.SchedulerConfiguration, cas bool) *api.SchedulerConfigWriteResponse {
		t.Helper()
		out, err := r.SetSchedulerConfig(t.Context(), &api.SchedulerConfigRequest{Config: c, CAS: cas})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := set(&api.SchedulerConfiguration{SchedulerAlgorithm: "spread"}, false); !out.Updated || out.Index == 0 {
		t.Fatalf("set: %+v", out)
	}
	got, err := r.SchedulerConfig(t.Context(), &api.QueryOptions{})
	if err != nil || got.SchedulerConfig.SchedulerAlgorithm != "spread" {
		t.Fatalf("get: %+v %v", got, err)
	}
	if out := set(&api.SchedulerConfiguration{ModifyIndex: 1}, true); out.Updated {
		t.Error("a stale configuration was written")
	}
	if out := set(&api.SchedulerConfiguration{ModifyIndex: got.SchedulerConfig.ModifyIndex}, true); !out.Updated {
		t.Error("a current configuration was refused")
	}
	for _, bad := range []*api.SchedulerConfiguration{nil, {SchedulerAlgorithm: "chance"}} {
		if _, err := r.SetSchedulerConfig(t.Context(), &api.SchedulerConfigRequest{Config: bad}); !errors.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestWhoLeads(t *testing.T) {
	t.Parallel()
	r := open(t)
	if out, err := r.Leader(t.Context(), &api.QueryOptions{}); err != nil || out.Leader != "127.0.0.1:4647" {
		t.Errorf("leader %+v %v", out, err)
	}
	if out, err := r.Peers(t.Context(), &api.QueryOptions{}); err != nil || len(out.Peers) != 1 {
		t.Errorf("peers %+v %v", out, err)
	}
	if out, err := r.RaftConfiguration(t.Context(), &api.QueryOptions{}); err != nil || out.Configuration.Servers[0].Node != "s1.global" {
		t.Errorf("configuration %+v %v", out, err)
	}
}

// removals fails the test when the engine is asked to remove a server.
type removals struct{ t *testing.T }

func (r removals) RemoveServer(_ context.Context, id string) error {
	r.t.Errorf("%s was removed", id)
	return nil
}
func (removals) TransferLeadership(context.Context, string, string) error { return nil }

func TestTheOnlyVoterStays(t *testing.T) {
	t.Parallel()
	s := state.New()
	r := operator.New(operator.Config{State: s, Raft: single{fsm.NewLocal(s, registry())}, Cluster: removals{t}})
	if _, err := r.RemovePeer(t.Context(), &api.RaftPeerRequest{ID: "s1"}); !errors.Is(err, fault.Conflict) {
		t.Errorf("remove the only voter: %v", err)
	}
}
