package nodes

import (
	"context"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// lossWorkers bounds how many nodes are marked lost at once.
const lossWorkers = 8

// Run is the room's leader duty: it marks silent nodes as lost and carries drains on, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	d := newDeadlines()
	s.mu.Lock()
	s.watch = d
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.watch = nil
		s.mu.Unlock()
	}()
	now := time.Now()
	for n := range s.state.Read().Nodes() {
		if !lost(n.Status) {
			d.set(n.ID, now, now.Add(s.beat.FailoverTTL))
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.watchDeadlines(ctx, d) })
	g.Go(func() error { return s.drainLoop(ctx) })
	return g.Wait()
}

func (s *Service) watchDeadlines(ctx context.Context, d *deadlines) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-d.wake:
		}
		due, next := d.expired(time.Now())
		s.lose(ctx, d, due)
		if !next.IsZero() {
			timer.Reset(max(time.Until(next), time.Millisecond))
		}
	}
}

// lose marks nodes as lost; one for which that fails is tried again in a second.
func (s *Service) lose(ctx context.Context, d *deadlines, due []*deadline) {
	var g errgroup.Group
	g.SetLimit(lossWorkers)
	for _, e := range due {
		g.Go(func() error {
			id := e.id
			tx := s.state.Read()
			n := tx.Node(id)
			if n == nil || lost(n.Status) {
				return nil
			}
			status := lossOf(tx, n)
			_, err := s.propose(ctx, &SetStatus{
				NodeID: id, Status: status, Missed: true, Silence: time.Since(e.seen), Seed: uuid.NewString(),
				Events: []*api.NodeEvent{event("Node heartbeat missed", api.NodeEventSubsystemCluster)},
			})
			if err != nil {
				s.log.Warn("node missed its heartbeat and could not be marked", "node", id, "error", err)
				d.retry(e, time.Now().Add(time.Second))
				return nil
			}
			s.log.Warn("node missed its heartbeat", "node", id, "name", n.Name, "status", status)
			return nil
		})
	}
	_ = g.Wait()
}

// lossOf is disconnected when some group on the node may live on without contact, else down.
func lossOf(tx *state.Txn, n *api.Node) string {
	for a := range tx.AllocsByNode(n.ID) {
		g := a.Group()
		if a.Terminal() || g == nil {
			continue
		}
		if g.MaxClientDisconnect > 0 || (g.Disconnect != nil && g.Disconnect.LostAfter > 0) {
			return api.NodeStatusDisconnected
		}
	}
	return api.NodeStatusDown
}
