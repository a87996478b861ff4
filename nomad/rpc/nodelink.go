package rpc

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/wire"
)

// nodes are the reversed connections, by node id.
type nodes struct {
	log hclog.Logger
	mu  sync.Mutex
	by  map[string]*wire.Reverse
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
func (n *nodes) run(ctx context.Context, l net.Listener, check func(context.Context, wire.Hello) error) {
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
func (n *nodes) greet(ctx context.Context, conn net.Conn, check func(context.Context, wire.Hello) error) {
	added := make(chan struct{})
	r, err := wire.AcceptReverse(ctx, conn, check, func(r *wire.Reverse) {
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
func (n *nodes) add(r *wire.Reverse) {
	n.mu.Lock()
	old := n.by[r.NodeID]
	if n.by == nil {
		n.by = map[string]*wire.Reverse{}
	}
	n.by[r.NodeID] = r
	n.mu.Unlock()
	if old != nil {
		_ = old.Close()
	}
}

func (n *nodes) remove(r *wire.Reverse) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.by[r.NodeID] == r {
		delete(n.by, r.NodeID)
	}
}
