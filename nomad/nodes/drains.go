package nodes

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/nodes/drain"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// drainLoop carries drains on: whenever nodes, allocations, claims or attachments of volumes changed,
// and at deadlines.
func (s *Service) drainLoop(ctx context.Context) error {
	feed := s.state.Feed(state.TableNodes, state.TableAllocs, state.TableClaims, state.TableAttachments)
	defer feed.Close()
	draining, waits := map[string]bool{}, drainWaits{}
	var wake time.Time
	for {
		b, err := feed.NextBefore(ctx, wake)
		if err != nil {
			return nil //nolint:nilerr // the term has ended
		}
		follow(s.state, b, draining)
		waits.keep(draining)
		wake = time.Time{}
		for id := range draining {
			at, err := s.drainNode(ctx, id, waits)
			if err != nil {
				s.log.Warn("drain of a node does not go on", "node", id, "error", err)
				at = time.Now().Add(time.Second)
			}
			if !at.IsZero() && (wake.IsZero() || at.Before(wake)) {
				wake = at
			}
		}
	}
}

// follow keeps the set of draining nodes.
func follow(s *state.Store, b state.Batch, draining map[string]bool) {
	if b.Resync {
		clear(draining)
		for n := range s.Read().Nodes() {
			if n.DrainStrategy != nil {
				draining[n.ID] = true
			}
		}
		return
	}
	for _, c := range b.Changes {
		if before, ok := c.Before.(*api.Node); ok && before != nil {
			delete(draining, before.ID)
		}
		if after, ok := c.After.(*api.Node); ok && after != nil && after.DrainStrategy != nil {
			draining[after.ID] = true
		}
	}
}

// drainNode takes the next step of one drain and returns when to check again.
func (s *Service) drainNode(ctx context.Context, id string, waits drainWaits) (time.Time, error) {
	tx := s.state.Read()
	n := tx.Node(id)
	if n == nil || n.DrainStrategy == nil {
		return time.Time{}, nil
	}
	left, now := volumesLeft(tx, n), time.Now()
	d := drain.Next(drain.View{
		Node: n, Allocs: slices.Collect(tx.AllocsByNode(id)), Now: now, Mounted: len(left) > 0,
		Group: func(ns, job, group string) []*api.Allocation {
			return slices.DeleteFunc(slices.Collect(tx.AllocsByJob(ns, job)), func(a *api.Allocation) bool { return a.TaskGroup != group })
		},
	})
	if !d.Held {
		left = nil
	}
	news, again := waits.news(id, left, now)
	if !again.IsZero() && (d.Wake.IsZero() || again.Before(d.Wake)) {
		d.Wake = again
	}
	if len(d.Migrate) == 0 && !d.Done && news == "" {
		return d.Wake, nil
	}
	_, err := s.propose(ctx, &StepDrain{NodeID: id, Migrate: d.Migrate, Done: d.Done, Waits: news, Seed: uuid.NewString()})
	switch {
	case err != nil:
		return d.Wake, err
	case d.Done:
		s.log.Info("node drain complete", "node", id)
	case news != "":
		waits.reported(id, news, now)
		s.log.Warn("node drain waits for volumes", "node", id, "volumes", news)
	}
	return d.Wake, nil
}
