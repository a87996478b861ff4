package transport

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/certs"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
)

// serving serves handlers on a loopback address, to clients that may take so long to send a request.
func serving(t *testing.T, timeout time.Duration, handlers ...wire.Handler) (string, Dialer) {
	t.Helper()
	id, err := certs.SelfMade()
	if err != nil {
		t.Fatal(err)
	}
	port, err := Listen("127.0.0.1:0", id.Server, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = port.Run(ctx) })
	all.Go(func() {
		_ = serve(ctx, port.Listener(wire.ProtocolRPC), handlers, hclog.NewNullLogger(), cpulimit.New(2), timeout)
	})
	t.Cleanup(func() { cancel(); all.Wait() })
	return port.Addr().String(), Dialer{TLS: id.Client}
}

// heartbeats serves heartbeats; those of nodes "hold..." report to there and wait for release.
func heartbeats(there chan<- struct{}, release <-chan struct{}) wire.Handler {
	return wire.NodeHeartbeat.Handle(func(_ context.Context, r *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error) {
		if strings.HasPrefix(r.NodeID, "hold") {
			there <- struct{}{}
			<-release
		}
		return &api.NodeUpdateResponse{}, nil
	})
}

func connectTo(t *testing.T, address string, d Dialer) *Conn {
	t.Helper()
	c, err := Connect(address, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A client that begins many large requests has few of them in the server's memory, and its heartbeats pass.
func TestFewLargeRequestsOfAClientAreServedAtOnce(t *testing.T) {
	t.Parallel()
	const calls = 3 * requestsEach
	there, release := make(chan struct{}, calls), make(chan struct{})
	address, d := serving(t, time.Minute, heartbeats(there, release))
	c := connectTo(t, address, d)
	ended := make(chan error, calls)
	for range calls {
		go func() {
			_, err := wire.NodeHeartbeat.Call(t.Context(), c, &api.NodeHeartbeatRequest{NodeID: "hold" + strings.Repeat("x", 2*smallBytes)})
			ended <- err
		}()
	}
	for range requestsEach {
		<-there
	}
	select {
	case <-there:
		t.Errorf("more than %d large requests are served at once", requestsEach)
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	for range calls {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// The connection of a client is closed that begins a request and does not send it in time.
func TestClientsThatDoNotSendTheirRequestAreDisconnected(t *testing.T) {
	t.Parallel()
	for _, length := range []int{100, MaxMessageBytes} {
		address, d := serving(t, 50*time.Millisecond, heartbeats(nil, nil))
		s := dialHTTP2(t, address, d)
		s.begin(t, 1, wire.NodeHeartbeat.Name, length)
		if err := s.wait(func() bool { return false }); !errors.Is(err, io.EOF) {
			t.Errorf("length %d: %v", length, err)
		}
	}
}

func TestRequestsAboveTheLimitAreRefused(t *testing.T) {
	t.Parallel()
	address, d := serving(t, time.Minute, heartbeats(nil, nil))
	s := dialHTTP2(t, address, d)
	s.begin(t, 1, wire.NodeHeartbeat.Name, MaxMessageBytes+1)
	if code := s.ended(t, 1); code != int(codeOf[fault.Exhausted]) {
		t.Errorf("code %d", code)
	}
}

// A slow client holds the slots of its own address only.
func TestHeartbeatsPassWhileAClientSendsSlowly(t *testing.T) {
	t.Parallel()
	r := newRequests(time.Minute)
	for range requestsEach {
		if _, err := r.reading.Acquire(t.Context(), "slow"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := r.reading.Acquire(ctx, "slow"); err == nil {
		t.Error("the slow client has more slots than its own")
	}
	if _, err := r.reading.Acquire(t.Context(), "other"); err != nil {
		t.Error(err)
	}
}

// Calls that clients cancel leave nothing behind: the slots are free and the connection stays usable.
func TestCanceledCallsReleaseTheirSlots(t *testing.T) {
	t.Parallel()
	list := wire.NodeList.Handle(func(context.Context, *api.NodeListRequest) (*api.NodeListResponse, error) {
		return &api.NodeListResponse{Nodes: []*api.NodeStub{{Name: strings.Repeat("x", 1<<20)}}}, nil
	})
	address, d := serving(t, time.Minute, list, heartbeats(nil, nil))
	c := connectTo(t, address, d)
	for i := range 300 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*20)*time.Microsecond)
		_, _ = wire.NodeList.Call(ctx, c, &api.NodeListRequest{})
		cancel()
	}
	if _, err := wire.NodeHeartbeat.Call(t.Context(), c, &api.NodeHeartbeatRequest{NodeID: "n1"}); err != nil {
		t.Error(err)
	}
}
