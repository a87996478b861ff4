package nodes

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Kind implements [fsm.Command].
func (*SetDrain) Kind() fsm.Kind { return fsm.KindNodeDrain }

// Kind implements [fsm.Command].
func (*StepDrain) Kind() fsm.Kind { return fsm.KindNodeDrainStep }

// Apply starts, changes or cancels the drain.
func (c *SetDrain) Apply(tx *state.Txn) (any, error) {
	old := tx.Node(c.NodeID)
	if old == nil {
		return nil, missing(c.NodeID)
	}
	n := *old
	n.DrainStrategy, n.Drain = c.Strategy, c.Strategy != nil
	if c.Strategy != nil {
		n.SchedulingEligibility = api.NodeSchedulingIneligible
		text := "Node drain strategy set"
		started := tx.Now()
		if old.DrainStrategy != nil {
			text, started = "Node drain strategy updated", old.DrainStrategy.StartedAt
			c.Strategy.StartedAt = started
		}
		n.Events = withEvents(n.Events, tx, event(text, api.NodeEventSubsystemDrain))
		n.LastDrain = &api.DrainMetadata{StartedAt: started, UpdatedAt: tx.Now(), Status: api.DrainStatusDraining, Meta: c.Meta}
		tx.PutNode(&n)
		return &Outcome{}, nil
	}
	if c.MarkEligible {
		n.SchedulingEligibility = api.NodeSchedulingEligible
	}
	if old.DrainStrategy != nil {
		n.Events = withEvents(n.Events, tx, event("Node drain strategy unset", api.NodeEventSubsystemDrain))
		n.LastDrain = ended(old.LastDrain, tx, api.DrainStatusCanceled)
		if c.Meta != nil {
			n.LastDrain.Meta = c.Meta
		}
	}
	tx.PutNode(&n)
	return &Outcome{Evals: evaluate(tx, &n, api.TriggerNodeUpdate, c.Seed)}, nil
}

func ended(old *api.DrainMetadata, tx *state.Txn, status api.DrainStatus) *api.DrainMetadata {
	d := api.DrainMetadata{StartedAt: tx.Now()}
	if old != nil {
		d = *old
	}
	d.Status, d.UpdatedAt = status, tx.Now()
	return &d
}

// Apply marks the allocations and evaluates their jobs; a drain that was cancelled meanwhile stays so.
func (c *StepDrain) Apply(tx *state.Txn) (any, error) {
	old := tx.Node(c.NodeID)
	if old == nil {
		return nil, missing(c.NodeID)
	}
	if old.DrainStrategy == nil {
		return &Outcome{}, nil
	}
	evals := newEvals(tx, old, api.TriggerNodeDrain, c.Seed)
	for _, id := range c.Migrate {
		a := tx.Alloc(id)
		if a == nil || a.NodeID != c.NodeID || a.Terminal() || a.DesiredTransition.Migrate {
			continue
		}
		next := *a
		next.DesiredTransition.Migrate = true
		next.ModifyTime = tx.Now().UnixNano()
		tx.PutAlloc(&next)
		evals.add(tx.Job(a.Namespace, a.JobID), a)
	}
	if c.Waits != "" && !c.Done {
		n := *old
		n.Events = withEvents(n.Events, tx, event("Node drain waits for volumes: "+c.Waits, api.NodeEventSubsystemDrain))
		tx.PutNode(&n)
	}
	if c.Done {
		n := *old
		n.DrainStrategy, n.Drain = nil, false
		n.Events = withEvents(n.Events, tx, event("Node drain complete", api.NodeEventSubsystemDrain))
		n.LastDrain = ended(old.LastDrain, tx, api.DrainStatusComplete)
		tx.PutNode(&n)
	}
	return &Outcome{Evals: evals.ids}, nil
}
