package rpc

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/transport"
)

// nodes are the reversed connections, by node id.
type nodes struct {
	log  hclog.Logger
	mu   sync.Mutex
	by   map[string]*transport.Reverse
	told map[string]time.Time
}

const (
	// aliveTimeout limits the check whether a node is alive when another one has its identity.
	aliveTimeout = time.Second
	// twinsTold is the minimum time between two log messages about the same two nodes.
	twinsTold = time.Minute
)

// taken refuses a process of a node while another one with the same identity lives: a data directory or a machine was
// copied, and both would run the same allocations.
func (n *nodes) taken(ctx context.Context, id, instance, from string) error {
	n.mu.Lock()
	old := n.by[id]
	n.mu.Unlock()
	if old == nil || instance == "" || old.Instance == "" || old.Instance == instance {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, aliveTimeout)
	defer cancel()
	if !old.Alive(bounded) {
		_ = old.Close() // what is left of a process that ended
		return nil
	}
	n.tell(id, old.Address, from)
	return fault.New(fault.Conflict, "node %q is the identity of another agent that lives at %s: was a data directory or a machine copied? "+
		"Stop one of them, and start it with a client state directory of its own", id, old.Address)
}

func (n *nodes) tell(id, holder, refused string) {
	host, _, _ := net.SplitHostPort(refused)
	key, now := id+" "+host, time.Now()
	n.mu.Lock()
	said := now.Sub(n.told[key]) < twinsTold
	if !said {
		if n.told == nil || len(n.told) > 1000 {
			n.told = map[string]time.Time{}
		}
		n.told[key] = now
	}
	n.mu.Unlock()
	if !said {
		n.log.Error("two agents have the identity of one node: the second one is refused", "node", id, "lives_at", holder, "refused", refused)
	}
}

func (n *nodes) get(id string) (wire.Caller, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.by[id]; r != nil {
		return r, nil
	}
	return nil, notConnected(id)
}

func (n *nodes) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.by)
}

// run accepts reversed connections until ctx ends, and closes them all.
func (n *nodes) run(ctx context.Context, l net.Listener, check func(context.Context, transport.Hello) error) {
	defer n.close()
	var greetings sync.WaitGroup
	defer greetings.Wait()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		greetings.Go(func() { n.greet(ctx, conn, check) })
	}
}

// greet takes one reversed connection, for as long as it lives.
func (n *nodes) greet(ctx context.Context, conn net.Conn, check func(context.Context, transport.Hello) error) {
	added := make(chan struct{})
	only := func(ctx context.Context, h transport.Hello) error {
		if err := check(ctx, h); err != nil {
			return err
		}
		return n.taken(ctx, h.NodeID, h.Instance, conn.RemoteAddr().String())
	}
	r, err := transport.AcceptReverse(ctx, conn, only, func(r *transport.Reverse) {
		<-added
		n.remove(r)
	})
	if err != nil {
		n.log.Debug("refused the reversed connection of a node", "peer", conn.RemoteAddr(), "error", err)
		return
	}
	n.add(r)
	close(added)
}

// close closes all connections.
func (n *nodes) close() {
	n.mu.Lock()
	all := slices.Collect(maps.Values(n.by))
	n.mu.Unlock()
	for _, r := range all {
		_ = r.Close()
	}
}

// add makes r the way to its node; an older connection is closed.
func (n *nodes) add(r *transport.Reverse) {
	n.mu.Lock()
	old := n.by[r.NodeID]
	if n.by == nil {
		n.by = map[string]*transport.Reverse{}
	}
	n.by[r.NodeID] = r
	n.mu.Unlock()
	if old != nil {
		_ = old.Close()
	}
}

func (n *nodes) remove(r *transport.Reverse) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.by[r.NodeID] == r {
		delete(n.by, r.NodeID)
	}
}
