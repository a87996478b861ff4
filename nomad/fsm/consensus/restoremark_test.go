package consensus_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/fsm/consensus"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// network connects servers, but for one that is cut off.
type network struct {
	mu    sync.Mutex
	cut   string
	conns map[net.Conn][2]string
}

func (n *network) dial(from string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, to string) (net.Conn, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.cut != "" && (n.cut == from || n.cut == to) {
			return nil, errors.New("cut off")
		}
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
		if err == nil {
			n.conns[c] = [2]string{from, to}
		}
		return c, err
	}
}

// off cuts a server off, or nobody.
func (n *network) off(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = address
	for c, ends := range n.conns {
		if address == ends[0] || address == ends[1] {
			_ = c.Close()
			delete(n.conns, c)
		}
	}
}

// peer is a server on the network, with its state.
type peer struct {
	*member
	dir   string
	state *state.Store
	stop  func()
}

// join opens a server; address is that of its earlier life, if it had one.
func (n *network) join(t *testing.T, id, dir, address string, rollBack func(older, now *state.Txn)) *peer {
	t.Helper()
	c, s := config(t, dir)
	if address != "" {
		_ = c.Listener.Close()
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		c.Listener, c.Advertise = l, address
	}
	c.ID, c.Single, c.Dial, c.RollBack = id, false, n.dial(c.Advertise), rollBack
	r, err := consensus.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Lead(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil })
	}()
	stop := sync.OnceFunc(func() { cancel(); <-done; _ = r.Close(); _ = c.Listener.Close() })
	t.Cleanup(stop)
	return &peer{&member{r, id, c.Advertise}, dir, s, stop}
}

func dumped(t *testing.T, s *state.Store) string {
	t.Helper()
	var b bytes.Buffer
	if err := s.Read().Dump(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A leader has a restored state before anybody else does. When it loses its office then, all servers get to one state
// again, also where it died before its log followed the snapshot.
func TestLeaderThatIsLostInARestoreComesToTheStateOfTheOthers(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"alive", "started again", "died before its log was dropped"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n := &network{conns: map[net.Conn][2]string{}}
			var first *peer
			before := filepath.Join(t.TempDir(), "wal")
			lose := func(_, _ *state.Txn) {
				n.off(first.address)
				if err := os.CopyFS(before, os.DirFS(filepath.Join(first.dir, "wal"))); err != nil {
					t.Error(err)
				}
			}
			var all []*peer
			var servers []api.RaftServer
			for _, id := range []string{"a", "b", "c"} {
				p := n.join(t, id, t.TempDir(), "", lose)
				all, servers = append(all, p), append(servers, api.RaftServer{ID: id, Address: p.address})
			}
			if err := all[0].Bootstrap(servers); err != nil {
				t.Fatal(err)
			}
			leader := func(of []*peer) (l *peer) {
				until(t, "one leads", func() bool {
					for _, p := range of {
						if p.IsLeader() {
							l = p
						}
					}
					return l != nil
				})
				return l
			}
			first = leader(all)
			archive, _ := saved(t, first.Raft)
			propose(t, first.Raft, "kept")
			if err := first.RestoreArchive(t.Context(), bytes.NewReader(archive), true); err == nil {
				t.Fatal("restored without a majority")
			}
			var others []*peer
			for _, p := range all {
				if p != first {
					others = append(others, p)
				}
			}
			next := leader(others)
			propose(t, next.Raft, "later")
			if what != "alive" {
				first.stop()
				if what != "started again" {
					wal := filepath.Join(first.dir, "wal")
					if err := errors.Join(os.RemoveAll(wal), os.CopyFS(wal, os.DirFS(before))); err != nil {
						t.Fatal(err)
					}
				}
			}
			n.off("")
			if what != "alive" {
				first = n.join(t, first.id, first.dir, first.address, nil)
			}
			all = append(others, first)
			until(t, "all have one state", func() bool {
				for _, p := range all {
					tx := p.state.Read()
					if tx.Namespace("kept") == nil || tx.Namespace("later") == nil || tx.Restoring() || dumped(t, p.state) != dumped(t, all[0].state) {
						return false
					}
				}
				return true
			})
			propose(t, leader(all).Raft, "last")
			until(t, "all go on", func() bool {
				for _, p := range all {
					if p.state.Read().Namespace("last") == nil {
						return false
					}
				}
				return true
			})
		})
	}
}

func TestRestoreEndsItsMark(t *testing.T) {
	t.Parallel()
	n := &network{conns: map[net.Conn][2]string{}}
	seen := false
	p := n.join(t, "a", t.TempDir(), "", func(_, now *state.Txn) { seen = now.Restoring() })
	if err := p.Bootstrap([]api.RaftServer{{ID: "a", Address: p.address}}); err != nil {
		t.Fatal(err)
	}
	until(t, "it leads", p.IsLeader)
	archive, _ := saved(t, p.Raft)
	if err := p.RestoreArchive(t.Context(), bytes.NewReader(archive), true); err != nil {
		t.Fatal(err)
	}
	if !seen || p.state.Read().Restoring() {
		t.Errorf("a restore is marked: during it %t, after it %t", seen, p.state.Read().Restoring())
	}
	var c fsm.RestoreMark
	b, _ := (&fsm.RestoreMark{Begin: true}).MarshalMsg(nil)
	if rest, err := c.UnmarshalMsg(b); err != nil || len(rest) > 0 || !c.Begin {
		t.Errorf("read back is %+v: %v", c, err)
	}
	if _, err := c.UnmarshalMsg(msgp.AppendInt(nil, 1)); err == nil {
		t.Error("anything is read")
	}
}
