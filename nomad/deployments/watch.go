package deployments

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

const (
	// window is the least time between two steps of one deployment: what becomes healthy meanwhile is
	// evaluated together.
	window = 500 * time.Millisecond
	// movesMax bounds the deployments of one raft entry.
	movesMax = 256
	// retry is the wait after an entry that could not be written.
	retry = time.Second
)

// Run is the leader's loop: it carries deployments on when something changed or a deadline passed, until ctx
// ends. What is counted from allocations is in the deployments, so it follows only them.
func (s *Service) Run(ctx context.Context) error {
	feed := s.State.Feed(state.TableDeployments)
	defer feed.Close()
	w := newAgenda()
	for {
		b, err := feed.NextBefore(ctx, w.next())
		if err != nil {
			return nil //nolint:nilerr // the term is over
		}
		now := time.Now()
		w.take(s.State.Read(), b, now)
		for s.step(ctx, w, now) {
		}
	}
}

// take notes which deployments changed.
func (w *agenda) take(tx *state.Txn, b state.Batch, now time.Time) {
	if b.Resync {
		w.clear()
		for d := range tx.Deployments(api.AllNamespaces) {
			if d.Active() || unsettled(tx, d) {
				w.set(w.item(d.ID), now)
			}
		}
		return
	}
	for _, c := range b.Changes {
		before, _ := c.Before.(*api.Deployment)
		after, _ := c.After.(*api.Deployment)
		switch {
		case after == nil && before != nil:
			w.drop(before.ID)
		case after != nil && (after.Active() || unsettled(tx, after)):
			e := w.item(after.ID)
			at := now
			if soonest := e.stepped.Add(window); soonest.After(now) {
				at = soonest
			}
			w.set(e, at)
		case after != nil:
			w.drop(after.ID)
		}
	}
}

// step looks at the deployments that are due and proposes what they need. It reports whether more are due.
func (s *Service) step(ctx context.Context, w *agenda, now time.Time) bool {
	due := w.due(now, movesMax)
	if len(due) == 0 {
		return false
	}
	tx := s.State.Read()
	c := &Step{Seed: uuid.NewString()}
	moved := map[*item]*api.Deployment{}
	for _, e := range due {
		d := tx.Deployment(e.id)
		if d == nil || !d.Active() && !unsettled(tx, d) {
			w.drop(e.id)
			continue
		}
		v := judge(tx, d, now)
		// A leader that is new does not know what was evaluated.
		next := healthyIn(d) > e.healthy && d.Status != api.DeploymentStatusPaused
		if d.Active() && !next && v.empty() {
			w.set(e, v.again)
			continue
		}
		c.Moves = append(c.Moves, &Move{DeploymentID: e.id, Evaluate: next})
		moved[e] = d
		w.set(e, v.again)
	}
	if len(c.Moves) == 0 {
		return true
	}
	_, err := s.Raft.Propose(ctx, c)
	for e, d := range moved {
		switch {
		case err != nil:
			w.set(e, now.Add(retry))
		case d.Active():
			e.healthy, e.stepped = healthyIn(d), now
		default:
			w.drop(e.id)
		}
	}
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("deployments do not go on", "count", len(c.Moves), "retry_in", retry, "error", err)
	}
	return ctx.Err() == nil
}

func healthyIn(d *api.Deployment) int {
	n := 0
	for _, g := range d.TaskGroups {
		n += g.HealthyAllocs
	}
	return n
}
