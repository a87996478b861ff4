package nodes

import (
	"context"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// lossWorkers bounds how many nodes are marked lost at once.
const lossWorkers = 8

// lossSlack lets the jobs of a disconnected node decide first what is lost, before the node is down.
const lossSlack = time.Second

// Run is the leader's part of the service: it marks silent nodes as lost and carries drains on, until ctx ends.
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
		if n.Status != api.NodeStatusDown {
			d.set(n.ID, now, now.Add(s.beat.FailoverTTL))
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.watchDeadlines(ctx, d) })
	g.Go(func() error { return s.drainLoop(ctx) })
	return g.Wait()
}

// Watched returns how many nodes the leader expects heartbeats of; 0 elsewhere.
func (s *Service) Watched() int {
	s.mu.Lock()
	d := s.watch
	s.mu.Unlock()
	if d == nil {
		return 0
	}
	return d.len()
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
func (s *Service) lose(ctx context.Context, d *deadlines, due []deadline) {
	var g errgroup.Group
	g.SetLimit(lossWorkers)
	for _, e := range due {
		g.Go(func() error {
			defer d.lost(e.id)
			if !d.lose(e.id) {
				return nil
			}
			tx := s.state.Read()
			n := tx.Node(e.id)
			if n == nil || n.Status == api.NodeStatusDown {
				return nil
			}
			defer s.metrics.Since("nomad.heartbeat.invalidate", time.Now())
			status, again := lossOf(tx, n, time.Now())
			if status != n.Status {
				if err := s.mark(ctx, n, status, time.Since(e.seen)); err != nil {
					s.log.Warn("node missed its heartbeat and could not be marked", "node", n.ID, "error", err)
					d.retry(e, time.Now().Add(time.Second))
					return nil
				}
			}
			if status == api.NodeStatusDisconnected {
				d.retry(e, again)
			}
			return nil
		})
	}
	_ = g.Wait()
}

func (s *Service) mark(ctx context.Context, n *api.Node, status string, silence time.Duration) error {
	text := "Node heartbeat missed"
	if n.Status == api.NodeStatusDisconnected {
		text = "Node did not come back in time"
	}
	_, err := s.propose(ctx, &SetStatus{
		NodeID: n.ID, Status: status, Missed: true, Silence: silence, Seed: uuid.NewString(),
		Events: []*api.NodeEvent{event(text, api.NodeEventSubsystemCluster)},
	})
	if err == nil {
		s.log.Warn("node missed its heartbeat", "node", n.ID, "name", n.Name, "status", status, "silent", silence.Round(time.Millisecond))
	}
	return err
}

// lossOf is disconnected as long as some allocation on the node may live on without contact, and when to
// look again; else down.
func lossOf(tx *state.Txn, n *api.Node, now time.Time) (status string, again time.Time) {
	for a := range tx.AllocsByNode(n.ID) {
		g := a.Group()
		if g == nil || a.Terminal() {
			continue
		}
		after := reconcile.LostAfter(g)
		if after <= 0 {
			continue
		}
		until := now.Add(after)
		if since := reconcile.UnknownSince(a); !since.IsZero() {
			until = since.Add(after)
		}
		if until.After(now) && until.After(again) {
			again = until
		}
	}
	if again.IsZero() {
		return api.NodeStatusDown, again
	}
	return api.NodeStatusDisconnected, again.Add(lossSlack)
}
