package rpc_test

import (
	"context"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/internal/soaktest"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// from is an address behind which the server meets another host's connections.
func (s *server) from(t *testing.T, host string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}).Dial("tcp", s.port.Addr().String())
			if err != nil {
				_ = in.Close()
				continue
			}
			go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
			go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
		}
	}()
	return l.Addr().String()
}

// A connection with as many calls under way as it may have is in nobody's way: neither of reads, which wait for
// a turn, nor of the short calls that keep nodes alive.
func TestAFloodOfReadsIsInNobodysWay(t *testing.T) {
	soaktest.Only(t)
	const calls = 8192 // of one connection
	store := state.New()
	var reads, now, most atomic.Int64
	list := wire.JobList.Handle(func(ctx context.Context, r *api.JobListRequest) (*api.JobListResponse, error) {
		out := &api.JobListResponse{}
		return out, rpc.Block(ctx, store, &r.QueryOptions, &out.QueryMeta, nil, func(*state.Txn) error {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer now.Add(-1)
			for end := time.Now().Add(time.Millisecond); time.Now().Before(end); {
			}
			reads.Add(1)
			return nil
		})
	})
	s := start(t, append(named("s"), list)...)
	flood, other := s.connect(t), dial(t, s.from(t, "127.0.0.2"), s.dialer)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for range calls {
		all.Go(func() {
			for ctx.Err() == nil {
				_, _ = wire.JobList.Call(ctx, flood, &api.JobListRequest{})
			}
		})
	}
	for reads.Load() < 200 { // it is under way
		runtime.Gosched()
	}
	for what, call := range map[string]func() error{
		"a read": func() error {
			_, err := wire.JobList.Call(t.Context(), other, &api.JobListRequest{})
			return err
		},
		"a beat": func() error {
			_, err := wire.NodeHeartbeat.Call(t.Context(), other, &api.NodeHeartbeatRequest{NodeID: "n1", NodeSecret: "secret of n1"})
			return err
		},
	} {
		var took []time.Duration
		before := reads.Load()
		for range 20 {
			begin := time.Now()
			if err := call(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			took = append(took, time.Since(begin))
		}
		slices.Sort(took)
		each := (reads.Load() - before) / 20
		t.Logf("%s of another host beside %d reads: median %v, longest %v, %d other reads meanwhile", what, calls, took[10], took[19], each)
		if each > calls/10 {
			t.Errorf("%s waited for %d reads of another client", what, each)
		}
	}
	if n := most.Load(); n > int64(runtime.GOMAXPROCS(0)) {
		t.Errorf("%d reads were computed at once on %d processors", n, runtime.GOMAXPROCS(0))
	}
}

func dial(t *testing.T, address string, d transport.Dialer) *transport.Conn {
	t.Helper()
	c, err := transport.Connect(address, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
