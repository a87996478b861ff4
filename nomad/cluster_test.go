package nomad_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/member"
)

// patience bounds every wait: generous, since other tests share the processors.
const patience = 60 * time.Second

// host is a server with its own directory and ports, which it keeps over restarts.
type host struct {
	t      testing.TB
	conf   nomad.Config
	log    lines
	server *nomad.Server
	cancel context.CancelFunc
	done   chan error
}

// lines collects what a server logs.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

func newHost(t testing.TB, name, region string, expect int, join ...*host) *host {
	t.Helper()
	h := &host{t: t, conf: nomad.Config{
		Name: name, Region: region, Datacenter: "dc1", Dir: t.TempDir(), Bind: "127.0.0.1:0", Workers: 1,
		Raft:   nomad.RaftTuning{Multiplier: 3}, // a busy machine elects nobody without need
		Gossip: &nomad.Gossip{Bind: "127.0.0.1:0", Expect: expect, Join: member.Join{Interval: 100 * time.Millisecond}},
	}}
	for _, other := range join {
		h.conf.Gossip.Join.Retry = append(h.conf.Gossip.Join.Retry, other.gossip())
	}
	return h
}

func (h *host) gossip() string {
	m := h.server.Member()
	return net.JoinHostPort(m.Addr, strconv.Itoa(int(m.Port)))
}

func (h *host) start() *host {
	h.t.Helper()
	h.conf.Log = hclog.New(&hclog.LoggerOptions{Output: &h.log, Level: hclog.Info})
	s, err := nomad.New(h.conf)
	for end := time.Now().Add(patience); err != nil; s, err = nomad.New(h.conf) {
		// Somebody's connection may have the port for a moment.
		if time.Now().After(end) || !strings.Contains(err.Error(), "address already in use") {
			h.t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	h.server = s
	h.conf.Bind, h.conf.Gossip.Bind = s.Address(), h.gossip()
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel, h.done = cancel, make(chan error, 1)
	go func() { h.done <- s.Run(ctx) }()
	h.t.Cleanup(func() {
		h.stop()
		if h.t.Failed() {
			h.t.Logf("log of %s:\n%s", h.conf.Name, h.log.String())
		}
	})
	return h
}

func (h *host) stop() {
	if h.cancel == nil {
		return
	}
	h.cancel()
	h.cancel = nil
	if err := <-h.done; err != nil {
		h.t.Errorf("%s: %v", h.conf.Name, err)
	}
}

// until waits for a fact.
func until(t testing.TB, what string, fact func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !fact(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in %s: %s", patience, what)
		}
	}
}

func register(ctx context.Context, s *nomad.Server, id string) error {
	_, err := wire.JobRegister.Call(ctx, s.Caller(), &api.JobRegisterRequest{Job: job(id)})
	return err
}

// has reports whether the server itself, whoever leads, knows the job.
func (h *host) has(id string) bool {
	q := api.QueryOptions{Stale: true}
	got, err := wire.JobGet.Call(h.t.Context(), h.server.Caller(), &api.JobRequest{JobID: id, QueryOptions: q})
	return err == nil && got.Job != nil
}

func (h *host) write(id string) {
	h.t.Helper()
	until(h.t, "write "+id, func() bool { return register(h.t.Context(), h.server, id) == nil })
}

// peers counts the voters and the others as this server knows them.
func (h *host) peers() (voters, others int) {
	got, err := wire.OperatorRaftConfiguration.Call(h.t.Context(), h.server.Caller(), &api.QueryOptions{Stale: true})
	if err != nil {
		return 0, 0
	}
	for _, s := range got.Configuration.Servers {
		if s.Voter {
			voters++
		} else {
			others++
		}
	}
	return voters, others
}

// trio starts three servers that make a cluster.
func trio(t testing.TB) []*host {
	t.Helper()
	a := newHost(t, "a", "global", 3).start()
	b := newHost(t, "b", "global", 3, a).start()
	c := newHost(t, "c", "global", 3, a, b).start()
	all := []*host{a, b, c}
	start := time.Now()
	a.write("first")
	t.Logf("first write %s after the start of the third server", time.Since(start).Round(time.Millisecond))
	for _, h := range all {
		until(t, h.conf.Name+" has the first job", func() bool { return h.has("first") })
	}
	return all
}

func split(all []*host) (leader *host, followers []*host) {
	for _, h := range all {
		if h.cancel != nil && h.server.Leads() {
			leader = h
		} else if h.cancel != nil {
			followers = append(followers, h)
		}
	}
	return leader, followers
}

// led waits until one leads and all others know that they do not.
func led(t testing.TB, all []*host) (leader *host, followers []*host) {
	t.Helper()
	until(t, "one leads", func() bool {
		leader, followers = split(all)
		return leader != nil && len(followers) == len(all)-1
	})
	return leader, followers
}

func TestClusterSurvivesItsLeader(t *testing.T) {
	t.Parallel()
	all := trio(t)
	if v, _ := all[0].peers(); v != 3 {
		t.Fatalf("%d voters", v)
	}
	var took []time.Duration
	for round := range 3 {
		var leader *host
		var followers []*host
		until(t, "a leader and two followers", func() bool { leader, followers = split(all); return leader != nil && len(followers) == 2 })
		leader.stop()
		start := time.Now()
		job := fmt.Sprint("without-leader-", round)
		followers[0].write(job)
		took = append(took, time.Since(start))
		leader.start()
		until(t, leader.conf.Name+" catches up", func() bool { return leader.has(job) && leader.has("first") })
		until(t, "three voters again", func() bool { v, _ := followers[0].peers(); return v == 3 })
		until(t, "all alive", func() bool { return alive(followers[0]) == 3 })
	}
	slices.Sort(took)
	t.Logf("next write after the loss of the leader: %v", took)
}

func alive(h *host) int {
	n := 0
	for _, m := range h.server.Members() {
		if m.Status == "alive" {
			n++
		}
	}
	return n
}

func TestFourthServerJoinsAndLeaves(t *testing.T) {
	t.Parallel()
	all := trio(t)
	d := newHost(t, "d", "global", 0, all[0]).start()
	until(t, "the fourth has the log", func() bool { return d.has("first") })
	until(t, "the fourth may vote", func() bool { v, o := all[0].peers(); return v == 4 && o == 0 })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := d.server.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	until(t, "three voters are left", func() bool { v, o := all[0].peers(); return v == 3 && o == 0 })
	d.stop()
	leader, followers := led(t, all)
	if err := leader.server.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	leader.stop()
	followers[0].write("after-the-leader-left")
	until(t, "two voters are left", func() bool { v, _ := followers[0].peers(); return v == 2 })
}

func TestServerOfAnotherClusterIsRefused(t *testing.T) {
	t.Parallel()
	a := newHost(t, "a", "global", 1).start()
	a.write("of-a")
	b := newHost(t, "b", "global", 1, a).start()
	b.write("of-b")
	const line = "belongs to another cluster"
	until(t, "both say why", func() bool { return a.log.count(line) == 1 && b.log.count(line) == 1 })
	if v, o := a.peers(); v != 1 || o != 0 {
		t.Errorf("a has %d voters and %d others", v, o)
	}
	if a.has("of-b") || b.has("of-a") {
		t.Error("the clusters mixed")
	}
}

func TestRequestsFindTheirRegion(t *testing.T) {
	t.Parallel()
	a := newHost(t, "a", "eu", 1).start()
	b := newHost(t, "b", "us", 1, a).start()
	b.write("of-us")
	until(t, "both regions are known", func() bool { return alive(a) == 2 && alive(b) == 2 })
	in := func(region string) (*api.JobGetResponse, error) {
		return wire.JobGet.Call(t.Context(), a.server.Caller(), &api.JobRequest{JobID: "of-us", QueryOptions: api.QueryOptions{Region: region}})
	}
	for region, known := range map[string]bool{"us": true, "eu": false} {
		until(t, "an answer of "+region, func() bool {
			got, err := in(region)
			if err == nil && (got.Job != nil) != known {
				t.Errorf("in %s: %+v", region, got.Job)
			}
			return err == nil
		})
	}
	if _, err := in("mars"); !errors.Is(err, fault.Invalid) || err.Error() != "No path to region" {
		t.Errorf("in mars: %v", err)
	}
	until(t, "a write from eu to us", func() bool {
		_, err := wire.JobRegister.Call(t.Context(), a.server.Caller(), &api.JobRegisterRequest{Job: job("from-eu"), WriteRequest: api.WriteRequest{Region: "us"}})
		return err == nil
	})
	if !b.has("from-eu") || a.has("from-eu") {
		t.Error("a write from eu to us went elsewhere")
	}
}

// connect registers a node and offers its reversed connection to one server only.
func (h *host) connect(node string) {
	h.t.Helper()
	n := &api.Node{
		ID: node, SecretID: "0f0f0f0f-0000-0000-0000-" + node[24:], Name: "n", Datacenter: "dc1", NodePool: "default",
		Status: api.NodeStatusReady, SchedulingEligibility: api.NodeSchedulingEligible,
	}
	until(h.t, "the node is registered", func() bool {
		_, err := wire.NodeRegister.Call(h.t.Context(), h.server.Caller(), &api.NodeRegisterRequest{Node: n})
		if err != nil && !errors.Is(err, fault.NotLeader) && !errors.Is(err, fault.Unavailable) {
			h.t.Fatal(err)
		}
		return err == nil
	})
	handlers := []wire.Handler{wire.ClientAllocLogs.Handle(func(_ context.Context, r *api.AllocLogsRequest) (*api.AllocLogsResponse, error) {
		if r.Task == "" {
			return nil, fault.New(fault.NotFound, "no task")
		}
		return &api.AllocLogsResponse{Data: []byte("log of " + r.Task)}, nil
	})}
	ctx, cancel := context.WithCancel(context.Background())
	opened, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		once := sync.OnceFunc(func() { close(opened) })
		for ctx.Err() == nil { // until the server has heard of the node
			_ = transport.ServeReverse(ctx, h.server.Address(), h.server.Dialer(), transport.Hello{NodeID: n.ID, Secret: n.SecretID}, handlers,
				hclog.NewNullLogger(), once)
		}
	}()
	h.t.Cleanup(func() { cancel(); <-done })
	select {
	case <-opened:
	case <-time.After(patience):
		h.t.Fatal("the node's connection was refused")
	}
}

func TestNodeIsReachedThroughItsServer(t *testing.T) {
	t.Parallel()
	a := newHost(t, "a", "global", 2).start()
	b := newHost(t, "b", "global", 2, a).start()
	a.write("first")
	until(t, "both know both", func() bool { return alive(a) == 2 && alive(b) == 2 })
	const node = "0f0f0f0f-0000-0000-0000-000000000001"
	a.connect(node)
	ask := func(h *host, task string) (string, error) {
		way, err := h.server.Node(node)
		if err != nil {
			return "", err
		}
		got, err := wire.ClientAllocLogs.Call(t.Context(), way, &api.AllocLogsRequest{Task: task})
		if err != nil {
			return "", err
		}
		return string(got.Data), nil
	}
	for _, h := range []*host{a, b, b} {
		until(t, h.conf.Name+" reaches the node", func() bool { got, err := ask(h, "web"); return err == nil && got == "log of web" })
		if _, err := ask(h, ""); !errors.Is(err, fault.NotFound) {
			t.Errorf("%s: the node's fault became %v", h.conf.Name, err)
		}
	}
	way, err := b.server.Node("nobody")
	if err == nil {
		_, err = wire.ClientAllocLogs.Call(t.Context(), way, &api.AllocLogsRequest{})
	}
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), `"nobody" is not connected`) {
		t.Errorf("an unknown node: %v", err)
	}
}

func TestDeadServerIsCleanedUp(t *testing.T) {
	t.Parallel()
	all := trio(t)
	_, followers := split(all)
	until(t, "there are two followers", func() bool { _, followers = split(all); return len(followers) == 2 })
	dead, other := followers[0], followers[1]
	dead.stop()
	until(t, "the autopilot removes the dead server", func() bool { v, o := other.peers(); return v == 2 && o == 0 })
	other.write("with-two")
	dead.start()
	until(t, "it is taken in again", func() bool { v, o := other.peers(); return v+o == 3 && dead.has("with-two") })
}

func TestWholeClusterRestarts(t *testing.T) {
	t.Parallel()
	all := trio(t)
	for _, h := range all {
		h.stop()
	}
	for _, h := range all {
		h.conf.Gossip.Join.Retry = nil // they remember each other
		h.start()
	}
	all[0].write("second")
	for _, h := range all {
		until(t, h.conf.Name+" has both jobs", func() bool { return h.has("first") && h.has("second") })
	}
	until(t, "all find each other", func() bool { return alive(all[0]) == 3 && alive(all[2]) == 3 })
	if v, o := all[0].peers(); v != 3 || o != 0 {
		t.Errorf("%d voters, %d others", v, o)
	}
}
