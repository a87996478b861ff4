package consensus_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/fsm/consensus"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// mark is a command that stores a namespace; names starting with "bad" are refused after a write.
type mark struct{ name string }

func (*mark) Kind() fsm.Kind { return 1000 }

func (m *mark) Apply(tx *state.Txn) (any, error) {
	tx.PutNamespace(&api.Namespace{Name: m.name})
	if strings.HasPrefix(m.name, "bad") {
		return nil, fault.New(fault.Conflict, "namespace %q is refused", m.name)
	}
	if m.name == "panic" {
		panic("a broken command")
	}
	if m.name == "secrets" {
		putSecrets(tx)
	}
	return "stored " + m.name, nil
}

func (m *mark) MarshalMsg(b []byte) ([]byte, error) { return msgp.AppendString(b, m.name), nil }

func (m *mark) UnmarshalMsg(b []byte) (rest []byte, err error) {
	m.name, rest, err = msgp.ReadStringBytes(b)
	return rest, err
}

// later is a command of a newer program.
type later struct {
	mark
	kind fsm.Kind
}

func (l *later) Kind() fsm.Kind { return l.kind }

func registry() *fsm.Registry {
	r := fsm.NewRegistry()
	r.Register(func() fsm.Command { return &mark{} })
	return r
}

func config(t testing.TB, dir string) (consensus.Config, *state.Store) {
	t.Helper()
	s := state.New()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return consensus.Config{
		ID: "s1", Advertise: l.Addr().String(), Dir: dir, Single: true, State: s, Registry: registry(), RollBack: ledger.RollBack, Listener: l,
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		},
		Log: hclog.NewNullLogger(),
	}, s
}

func open(t testing.TB, dir string) (*consensus.Raft, *state.Store) {
	t.Helper()
	c, s := config(t, dir)
	r, err := consensus.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r, s
}

// lead waits until the server leads.
func lead(t testing.TB, r *consensus.Raft) {
	t.Helper()
	for {
		select {
		case leads := <-r.Leadership():
			if leads {
				return
			}
		case <-time.After(30 * time.Second):
			t.Fatal("no leader in 20 s")
		}
	}
}

func TestProposeAnswersValueAndFault(t *testing.T) {
	t.Parallel()
	start := time.Now()
	r, s := open(t, "")
	lead(t, r)
	t.Logf("leader after %s", time.Since(start))
	got, err := r.Propose(t.Context(), &mark{"one"})
	if err != nil || got.Value != "stored one" || got.Index == 0 {
		t.Fatalf("propose: %+v %v", got, err)
	}
	ns := s.Read().Namespace("one")
	if ns == nil || ns.CreateIndex != got.Index {
		t.Fatalf("stored %+v, index %d", ns, got.Index)
	}
	if _, err := r.Propose(t.Context(), &mark{"bad"}); !errors.Is(err, fault.Conflict) {
		t.Errorf("refused command: %v", err)
	}
	if s.Read().Namespace("bad") != nil {
		t.Error("a refused command left a row")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Propose(ctx, &mark{"late"}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := r.Barrier(t.Context()); err != nil {
		t.Errorf("barrier: %v", err)
	}
	conf, err := r.Configuration()
	if err != nil || len(conf.Servers) != 1 || !conf.Servers[0].Leader || !conf.Servers[0].Voter {
		t.Errorf("configuration %+v %v", conf, err)
	}
}

func TestProposeOnNonLeader(t *testing.T) {
	t.Parallel()
	c, _ := config(t, "")
	c.Single = false
	r, err := consensus.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Propose(t.Context(), &mark{"one"}); !errors.Is(err, fault.NotLeader) {
		t.Fatalf("propose without a leader: %v", err)
	}
}

func TestElectionWithinASecond(t *testing.T) {
	if testing.Short() {
		t.Skip("measures time")
	}
	for _, dir := range []string{"", t.TempDir()} {
		start := time.Now()
		r, _ := open(t, dir)
		lead(t, r)
		took := time.Since(start)
		t.Logf("dir %q: leader after %s", dir, took)
		if took > time.Second {
			t.Errorf("election took %s", took)
		}
		_ = r.Close()
	}
}

func TestReopenKeepsEverything(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, _ := open(t, dir)
	lead(t, r)
	propose(t, r, "one", "two")
	if err := r.Snapshot(t.Context()); err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	if err := r.Snapshot(t.Context()); err != nil {
		t.Fatalf("second snapshot: %v", err)
	}
	propose(t, r, "three")
	if err := r.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	r, s := open(t, dir)
	lead(t, r)
	if err := r.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two", "three"} {
		if s.Read().Namespace(name) == nil {
			t.Errorf("%s is gone", name)
		}
	}
}

func propose(t testing.TB, r *consensus.Raft, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := r.Propose(t.Context(), &mark{name}); err != nil {
			t.Fatalf("propose %s: %v", name, err)
		}
	}
}

func TestSecondAgentIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "raft")
	open(t, dir)
	c, _ := config(t, dir)
	_, err := consensus.Open(c)
	if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "another agent uses the data directory "+filepath.Dir(dir)) {
		t.Fatalf("second open: %v", err)
	}
}

func TestUnknownKindStopsUnlessSkippable(t *testing.T) {
	t.Parallel()
	r, s := open(t, "")
	lead(t, r)
	for _, kind := range []fsm.Kind{fsm.KindSkippable, fsm.KindSkippable + 1} {
		if _, err := r.Propose(t.Context(), &later{mark{"x"}, kind}); !errors.Is(err, fault.Unimplemented) {
			t.Fatalf("skippable %d: %v", kind, err)
		}
	}
	propose(t, r, "after")
	if _, err := r.Propose(t.Context(), &later{mark{"x"}, 999}); err == nil {
		t.Fatal("an unknown kind was applied")
	}
	<-r.Failed()
	if _, err := r.Propose(t.Context(), &mark{"never"}); err == nil || s.Read().Namespace("never") != nil {
		t.Fatalf("applied after the stop: %v", err)
	}
	if err := r.Snapshot(t.Context()); err == nil {
		t.Error("a stopped machine wrote a snapshot")
	}
}

func TestPanicInApplyStopsTheMachine(t *testing.T) {
	t.Parallel()
	r, s := open(t, "")
	lead(t, r)
	if _, err := r.Propose(t.Context(), &mark{"panic"}); !errors.Is(err, fault.Internal) {
		t.Fatalf("panic: %v", err)
	}
	<-r.Failed()
	if r.Failure() == nil || s.Read().Namespace("panic") != nil {
		t.Fatalf("failure %v", r.Failure())
	}
}

func TestLeadRunsOncePerTermAndRetries(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	runs := make(chan int, 10)
	var n int
	done := make(chan error, 1)
	go func() {
		done <- r.Lead(ctx, func(ctx context.Context) error {
			n++
			runs <- n
			if n == 1 {
				return errors.New("first try")
			}
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	for want := 1; want <= 2; want++ {
		if got := <-runs; got != want {
			t.Fatalf("run %d, want %d", got, want)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatalf("lead: %v", err)
	}
}

func TestServerComesBackWithAnotherAddress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, _ := open(t, dir)
	lead(t, r)
	propose(t, r, "one")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r, _ = open(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	leads, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- r.Lead(ctx, func(ctx context.Context) error { close(leads); <-ctx.Done(); return nil })
	}()
	<-leads
	conf, err := r.Configuration()
	if err != nil || len(conf.Servers) != 1 || conf.Servers[0].Address != r.LeaderAddress() {
		t.Errorf("configuration %+v %v, leader at %s", conf.Servers[0], err, r.LeaderAddress())
	}
	cancel()
	<-done
}

// TestMain is also the child of TestKilledServerLosesNothing.
func TestMain(m *testing.M) {
	if dir := os.Getenv("FSM_TEST_CHILD"); dir != "" {
		child(dir)
		return
	}
	os.Exit(m.Run())
}

// child proposes numbers and prints each after it was committed, until it is killed.
func child(dir string) {
	s := state.New()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	r, err := consensus.Open(consensus.Config{
		ID: "s1", Advertise: l.Addr().String(), Dir: dir, Single: true, State: s,
		Registry: registry(), Listener: l, Log: hclog.NewNullLogger(), SnapshotThreshold: 50, SnapshotInterval: 20 * time.Millisecond,
	})
	if err != nil {
		panic(err)
	}
	for leads := range r.Leadership() {
		if leads {
			break
		}
	}
	for i := 0; ; i++ {
		if _, err := r.Propose(context.Background(), &mark{"n" + strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(i)}); err != nil {
			panic(err)
		}
		_, _ = os.Stdout.WriteString("n" + strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(i) + "\n")
	}
}

func TestKilledServerLosesNothing(t *testing.T) {
	dir := t.TempDir()
	var acknowledged []string
	for round := range 3 {
		acknowledged = append(acknowledged, killAfter(t, dir, 100*(round+1))...)
	}
	r, s := open(t, dir)
	lead(t, r)
	if err := r.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	tx := s.Read()
	for _, name := range acknowledged {
		if tx.Namespace(name) == nil {
			t.Errorf("acknowledged %s is gone", name)
		}
	}
	t.Logf("%d acknowledged entries kept over 3 kills", len(acknowledged))
}

// killAfter kills a child when it has acknowledged n entries and returns all that it did.
func killAfter(t *testing.T, dir string, n int) []string {
	t.Helper()
	out := &lines{limit: n, reached: make(chan struct{})}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "FSM_TEST_CHILD="+dir)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-out.reached:
	case <-time.After(30 * time.Second):
		t.Error("the child is too slow")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return out.whole()
}

type lines struct {
	mu      sync.Mutex
	text    strings.Builder
	count   int
	limit   int
	reached chan struct{}
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(b)
	before := l.count
	l.count += strings.Count(string(b), "\n")
	if before < l.limit && l.count >= l.limit {
		close(l.reached)
	}
	return len(b), nil
}

func (l *lines) whole() []string {
	all := strings.Split(l.text.String(), "\n")
	return all[:len(all)-1]
}
