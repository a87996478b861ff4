package link_test

import (
	"context"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/link"
)

// stalled accepts connections and never answers.
func stalled(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
		}
	}()
	return l.Addr().String()
}

// valve passes connections on until it is shut; then nothing moves and nothing is reset.
type valve struct {
	address string
	mu      sync.Mutex
	shut    bool
}

func newValve(t *testing.T, to string) *valve {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v := &valve{address: l.Addr().String()}
	ctx, end := context.WithCancel(context.Background())
	t.Cleanup(func() { end(); _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			context.AfterFunc(ctx, func() { _ = in.Close(); _ = out.Close() })
			go v.pass(in, out)
			go v.pass(out, in)
		}
	}()
	return v
}

func (v *valve) pass(from io.Reader, to io.Writer) {
	part := make([]byte, 4096)
	for {
		n, err := from.Read(part)
		if err != nil {
			return
		}
		v.mu.Lock()
		shut := v.shut
		v.mu.Unlock()
		if shut {
			continue
		}
		if _, err := to.Write(part[:n]); err != nil {
			return
		}
	}
}

func (v *valve) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shut = true
}

func TestCallLeavesAServerThatNeverAnswers(t *testing.T) {
	t.Parallel()
	b, d := start(t, "127.0.0.1:0", answer("b"))
	for range 3 { // the first server is chosen by chance
		l := open(t, d, stalled(t))
		l.Remember([]string{b.port.Addr().String()})
		if got, err := call(t, l); err != nil || got != "b" {
			t.Fatalf("got %q %v", got, err)
		}
	}
}

func TestWaitingCallLeavesAServerThatFellSilent(t *testing.T) {
	t.Parallel()
	waits := make(chan struct{}, 10)
	hold := func(ctx context.Context, _ *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error) {
		waits <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	a, _ := start(t, "127.0.0.1:0", hold)
	b, d := start(t, "127.0.0.1:0", answer("b"))
	v := newValve(t, a.port.Addr().String())
	l := open(t, d, v.address)
	l.Remember([]string{b.port.Addr().String()})
	got := make(chan string, 1)
	go func() {
		name, err := call(t, l)
		if err != nil {
			name = err.Error()
		}
		got <- name
	}()
	<-waits
	v.close()
	if name := <-got; name != "b" {
		t.Fatalf("got %q", name)
	}
}

func TestWaitingCallLeavesAServerThatLostTheCluster(t *testing.T) {
	t.Parallel()
	leader := func(name string) wire.Handler {
		return wire.StatusLeader.Handle(func(context.Context, *api.QueryOptions) (*api.StatusLeaderResponse, error) {
			return &api.StatusLeaderResponse{Leader: name}, nil
		})
	}
	hold := func(ctx context.Context, _ *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	a, _ := start(t, "127.0.0.1:0", hold, leader(""))
	b, d := start(t, "127.0.0.1:0", answer("b"), leader("b"))
	l := open(t, d, a.port.Addr().String())
	l.Remember([]string{stalled(t), b.port.Addr().String()})
	if got, err := call(t, l); err != nil || got != "b" {
		t.Fatalf("got %q %v", got, err)
	}
}

func TestCallStaysWhereNobodyIsBetter(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	var calls sync.WaitGroup
	calls.Add(1)
	var once sync.Once
	slow := func(context.Context, *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error) {
		once.Do(calls.Done)
		<-released
		return &api.NodeUpdateResponse{EvalIDs: []string{"slow"}}, nil
	}
	a, d := start(t, "127.0.0.1:0", slow)
	l := link.New(link.Config{Servers: []string{a.port.Addr().String()}, Dialer: d, Log: hclog.NewNullLogger()})
	l.Remember([]string{stalled(t), dead(t)})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = l.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done; _ = l.Close() })
	result := make(chan string, 1)
	go func() {
		name, err := call(t, l)
		if err != nil {
			name = err.Error()
		}
		result <- name
	}()
	calls.Wait()
	time.AfterFunc(2500*time.Millisecond, func() { close(released) }) // longer than two looks
	if got := <-result; got != "slow" {
		t.Errorf("got %q", got)
	}
}

func TestRememberedServersAreTheLastToBeAsked(t *testing.T) {
	t.Parallel()
	a, d := start(t, "127.0.0.1:0", answer("configured"))
	b, _ := start(t, "127.0.0.1:0", answer("remembered"))
	for range 5 {
		l := open(t, d, a.port.Addr().String())
		l.Remember([]string{b.port.Addr().String()})
		if got, err := call(t, l); err != nil || got != "configured" {
			t.Fatalf("got %q %v", got, err)
		}
		if all := l.Servers(); !slices.Equal(all, []string{a.port.Addr().String(), b.port.Addr().String()}) {
			t.Fatalf("servers %v", all)
		}
	}
	a.stop()
	l := open(t, d, a.port.Addr().String())
	l.Remember([]string{b.port.Addr().String()})
	if got, err := call(t, l); err != nil || got != "remembered" {
		t.Fatalf("got %q %v", got, err)
	}
}
