package rpc_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/certs"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// patient is a server that holds calls and is not served over a port; leads says whether it does.
func patient(t *testing.T, hold time.Duration, servers func(string) []string, handlers ...wire.Handler) (*rpc.Server, *cluster, transport.Dialer) {
	t.Helper()
	id, err := certs.SelfMade()
	if err != nil {
		t.Fatal(err)
	}
	raft, dialer := &cluster{}, transport.Dialer{TLS: id.Client}
	s := rpc.New(rpc.Config{Log: hclog.NewNullLogger(), Raft: raft, Dialer: dialer, Region: "home", Servers: servers, Hold: hold})
	s.Handle(handlers...)
	return s, raft, dialer
}

func purge(ctx context.Context, c wire.Caller) (string, error) {
	got, err := wire.NodePurge.Call(ctx, c, &api.NodeWriteRequest{})
	if err != nil {
		return "", err
	}
	return got.EvalIDs[0], nil
}

func TestCallsWaitForALeader(t *testing.T) {
	t.Parallel()
	const long = time.Minute
	leader := start(t, named("leader")...)
	for what, arrive := range map[string]func(*cluster){
		"another server": func(c *cluster) { c.address.Store(leader.port.Addr().String()) },
		"this server":    func(c *cluster) { c.leads.Store(true) },
	} {
		s, raft, _ := patient(t, long, nil, named("this")...)
		raft.address.Store("127.0.0.1:1") // a leader that is dead
		answered := make(chan string, 1)
		go func() {
			got, err := purge(context.Background(), s)
			if err != nil {
				got = err.Error()
			}
			answered <- got
		}()
		select {
		case got := <-answered:
			t.Fatalf("%s: answered %q without a leader", what, got)
		case <-time.After(50 * time.Millisecond):
		}
		raft.address.Store("")
		arrive(raft)
		if got := <-answered; got != "leader" && got != "this" {
			t.Errorf("%s: %s", what, got)
		}
	}
}

func TestWaitingForALeaderEnds(t *testing.T) {
	t.Parallel()
	s, _, _ := patient(t, 20*time.Millisecond, nil, named("this")...)
	if _, err := purge(t.Context(), s); !errors.Is(err, fault.NotLeader) || err.Error() != "No cluster leader" {
		t.Errorf("after the hold: %v", err)
	}
	s, _, _ = patient(t, time.Hour, nil, named("this")...)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := purge(ctx, s); err == nil {
		t.Error("a call outlived its deadline")
	}
}

func TestLostWritesAreNotSentTwice(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	lost := fault.New(fault.Unavailable, "the outcome is unknown")
	leader := start(t,
		wire.NodePurge.Handle(func(context.Context, *api.NodeWriteRequest) (*api.NodeWriteResponse, error) {
			calls.Add(1)
			return nil, lost
		}),
		wire.NodeList.Handle(func(context.Context, *api.NodeListRequest) (*api.NodeListResponse, error) {
			if calls.Add(1) < 5 {
				return nil, lost
			}
			return &api.NodeListResponse{}, nil
		}))
	s, raft, _ := patient(t, time.Minute, nil, named("this")...)
	raft.address.Store(leader.port.Addr().String())
	if _, err := purge(t.Context(), s); !errors.Is(err, fault.Unavailable) || calls.Load() != 1 {
		t.Errorf("a write was sent %d times: %v", calls.Load(), err)
	}
	if _, err := wire.NodeList.Call(t.Context(), s, &api.NodeListRequest{}); err != nil || calls.Load() != 5 {
		t.Errorf("a read was sent %d times: %v", calls.Load()-1, err)
	}
}

func TestRegionsAreTriedOneByOne(t *testing.T) {
	t.Parallel()
	far := start(t, named("far")...)
	s, raft, _ := patient(t, 0, func(region string) []string {
		return map[string][]string{"far": {"127.0.0.1:1", far.port.Addr().String()}, "dead": {"127.0.0.1:1"}}[region]
	}, named("here")...)
	raft.leads.Store(true)
	in := func(region string) (string, error) {
		got, err := wire.NodeList.Call(t.Context(), s, &api.NodeListRequest{QueryOptions: api.QueryOptions{Region: region}})
		if err != nil {
			return "", err
		}
		return got.Nodes[0].Name, nil
	}
	for region, want := range map[string]string{"": "here", "home": "here", "far": "far"} {
		if got, err := in(region); got != want || err != nil {
			t.Errorf("region %q: %q, %v", region, got, err)
		}
	}
	if _, err := in("dead"); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a region whose servers are dead: %v", err)
	}
	if _, err := in("mars"); !errors.Is(err, fault.Invalid) || err.Error() != "No path to region" {
		t.Errorf("an unknown region: %v", err)
	}
}

func TestNodesOfOtherRegionsAreReached(t *testing.T) {
	t.Parallel()
	far := start(t)
	defer far.offer(t, "n1", "secret of n1", "far node")()
	far.reach(t, "n1", "far node")
	s, _, _ := patient(t, 0, func(region string) []string {
		return map[string][]string{"far": {far.port.Addr().String()}}[region]
	})
	ask := func(region, node string) (string, error) {
		got, err := wire.ClientAllocLogs.Call(t.Context(), wire.Through(s, region, node), &api.AllocLogsRequest{})
		if err != nil {
			return "", err
		}
		return got.File, nil
	}
	if got, err := ask("far", "n1"); got != "far node" || err != nil {
		t.Errorf("a node of another region: %q, %v", got, err)
	}
	if _, err := ask("far", "n2"); !errors.Is(err, fault.Unavailable) {
		t.Errorf("an unknown node: %v", err)
	}
	if _, err := ask("mars", "n1"); !errors.Is(err, fault.Invalid) {
		t.Errorf("an unknown region: %v", err)
	}
	_, err := wire.ControllerDelete.Call(t.Context(), wire.Through(s, "far", "n1"), &api.ControllerDeleteRequest{})
	if !errors.Is(err, fault.Denied) {
		t.Errorf("a method for servers: %v", err)
	}
}

func TestNodesOfOtherRegionsAreRefused(t *testing.T) {
	t.Parallel()
	s, raft, _ := patient(t, 0, nil, wire.NodeRegister.Handle(func(context.Context, *api.NodeRegisterRequest) (*api.NodeUpdateResponse, error) {
		return &api.NodeUpdateResponse{}, nil
	}))
	raft.leads.Store(true)
	for region, refused := range map[string]bool{"": false, "home": false, "far": true} {
		_, err := wire.NodeRegister.Call(t.Context(), s, &api.NodeRegisterRequest{WriteRequest: api.WriteRequest{Region: region}})
		if refused != errors.Is(err, fault.Invalid) {
			t.Errorf("a node of region %q: %v", region, err)
		}
	}
}

// While a server holds a call for who leads, it may win the election itself.
func TestAServerThatWinsAsksForTheSecretAgain(t *testing.T) {
	t.Parallel()
	for what, call := range map[string]func(context.Context, wire.Caller, string) error{
		"heartbeat": func(ctx context.Context, c wire.Caller, secret string) error {
			_, err := wire.NodeHeartbeat.Call(ctx, c, &api.NodeHeartbeatRequest{NodeID: "n1", NodeSecret: secret})
			return err
		},
		"report": func(ctx context.Context, c wire.Caller, secret string) error {
			_, err := wire.NodeUpdateAllocs.Call(ctx, c, &api.AllocUpdateRequest{NodeID: "n1", NodeSecret: secret})
			return err
		},
		"assignments": func(ctx context.Context, c wire.Caller, secret string) error {
			_, err := wire.NodeAssignments.Call(ctx, c, &api.NodeAssignmentsRequest{NodeID: "n1", NodeSecret: secret})
			return err
		},
		"stale assignments": func(ctx context.Context, c wire.Caller, secret string) error {
			_, err := wire.NodeAssignments.Call(ctx, c, &api.NodeAssignmentsRequest{NodeID: "n1", NodeSecret: secret, QueryOptions: api.QueryOptions{Stale: true}})
			return err
		},
	} {
		for secret, want := range map[string]error{"wrong": fault.Denied, "secret of n1": nil} {
			var served atomic.Int32
			raft := &cluster{}
			raft.asked = func(n int32) { raft.leads.Store(n >= 4) } // it wins while it holds the call
			s := rpc.New(rpc.Config{Log: hclog.NewNullLogger(), Raft: raft, VerifyNode: secretOf, Hold: time.Minute})
			s.Handle(
				wire.NodeHeartbeat.Handle(func(context.Context, *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error) {
					served.Add(1)
					return &api.NodeUpdateResponse{}, nil
				}),
				wire.NodeUpdateAllocs.Handle(func(context.Context, *api.AllocUpdateRequest) (*api.WriteMeta, error) {
					served.Add(1)
					return &api.WriteMeta{}, nil
				}),
				wire.NodeAssignments.Handle(func(context.Context, *api.NodeAssignmentsRequest) (*api.NodeAssignmentsResponse, error) {
					served.Add(1)
					return &api.NodeAssignmentsResponse{}, nil
				}))
			err := call(t.Context(), s, secret)
			if want == nil && (err != nil || served.Load() != 1) || want != nil && (!errors.Is(err, want) || served.Load() != 0) {
				t.Errorf("%s with secret %q: %v, served %d times", what, secret, err, served.Load())
			}
		}
	}
}

// A leader that was frozen while another one was elected still takes itself for the leader: what it reads then is what
// it knew before.
func TestReadOfALeaderThatWasReplacedIsForwarded(t *testing.T) {
	t.Parallel()
	leader := start(t, named("leader")...)
	old, raft, _ := patient(t, time.Minute, nil, named("old")...)
	raft.leads.Store(true)
	raft.address.Store("127.0.0.1:1") // it knows of itself only
	name := func(q api.QueryOptions) string {
		t.Helper()
		got, err := wire.NodeList.Call(t.Context(), old, &api.NodeListRequest{QueryOptions: q})
		if err != nil {
			t.Fatal(err)
		}
		return got.Nodes[0].Name
	}
	if got := name(api.QueryOptions{}); got != "old" {
		t.Errorf("while it leads %q answers", got)
	}
	raft.lost.Store(true)
	if got := name(api.QueryOptions{Stale: true}); got != "old" {
		t.Errorf("any server may answer, %q did", got)
	}
	answered := make(chan string, 1)
	go func() { answered <- name(api.QueryOptions{}) }()
	select {
	case got := <-answered:
		t.Fatalf("%q answered for a leader that was replaced", got)
	case <-time.After(50 * time.Millisecond):
	}
	raft.address.Store(leader.port.Addr().String())
	raft.leads.Store(false) // it learns of it
	select {
	case got := <-answered:
		if got != "leader" {
			t.Errorf("%q answers", got)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("nobody answers")
	}
}

// A read that began in an earlier term of this leader is made again.
func TestReadThatOutlastsATermIsMadeAgain(t *testing.T) {
	t.Parallel()
	reads := 0
	var raft *cluster
	var s *rpc.Server
	s, raft, _ = patient(t, time.Minute, nil, wire.NodeList.Handle(func(context.Context, *api.NodeListRequest) (*api.NodeListResponse, error) {
		if reads++; reads == 1 {
			raft.term.Add(2) // another one led meanwhile
			return nil, fault.New(fault.NotFound, "of the state of before")
		}
		return &api.NodeListResponse{Nodes: []*api.NodeStub{{Name: "now"}}}, nil
	}))
	raft.leads.Store(true)
	got, err := wire.NodeList.Call(t.Context(), s, &api.NodeListRequest{})
	if err != nil || got.Nodes[0].Name != "now" || reads != 2 {
		t.Errorf("%+v %v after %d reads", got, err, reads)
	}
}

// A leader that was replaced and does not know it yet answers writes by a state that is over: that is no answer.
func TestAnswerOfALeaderThatWasReplacedIsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	for _, refused := range []error{nil, fault.New(fault.NotFound, "there is none"), errors.New("no such thing")} {
		old, raft, _ := patient(t, time.Minute, nil, wire.NodePurge.Handle(func(context.Context, *api.NodeWriteRequest) (*api.NodeWriteResponse, error) {
			return &api.NodeWriteResponse{EvalIDs: []string{""}}, refused
		}))
		raft.leads.Store(true)
		if _, err := purge(t.Context(), old); !errors.Is(err, refused) {
			t.Errorf("while it leads: %v, want %v", err, refused)
		}
		raft.lost.Store(true)
		if _, err := purge(t.Context(), old); fault.Of(err) != fault.Unavailable || errors.Is(err, fault.NotFound) || errors.Is(err, fault.NotLeader) {
			t.Errorf("after it was replaced: %v", err)
		}
		raft.committed.Store(true)
		if _, err := purge(t.Context(), old); !errors.Is(err, refused) {
			t.Errorf("of a call of which an entry was committed: %v, want %v", err, refused)
		}
	}
}

// A call that lost the leadership between two of its entries has done a part of its work: it is not begun anew.
func TestCallOfWhichAPartIsCommittedIsNotRepeated(t *testing.T) {
	t.Parallel()
	calls := 0
	var raft *cluster
	var s *rpc.Server
	s, raft, _ = patient(t, time.Minute, nil, wire.NodePurge.Handle(func(context.Context, *api.NodeWriteRequest) (*api.NodeWriteResponse, error) {
		if calls++; calls == 1 {
			raft.committed.Store(true)
			return nil, fault.New(fault.NotLeader, "another one leads")
		}
		return &api.NodeWriteResponse{EvalIDs: []string{"again"}}, nil
	}))
	raft.leads.Store(true)
	if got, err := purge(t.Context(), s); fault.Of(err) != fault.Unavailable || errors.Is(err, fault.NotLeader) || calls != 1 {
		t.Errorf("called %d times: %q %v", calls, got, err)
	}
}
