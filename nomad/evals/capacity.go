package evals

import (
	"context"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// capacity compares what blocked evaluations wait for with what nodes have free. Only the loop that follows the state
// uses it.
type capacity struct {
	state *state.Store
	fleet func(context.Context) (*fleet.Fleet, error)
	// asks is the least that each blocked evaluation waits for, found out when it is first asked for.
	asks map[string]fleet.Amount
	// sites are the nodes as they were when first asked for since the last change.
	sites  map[string]*site
	now    *fleet.Fleet
	evicts api.PreemptionConfig
}

// site is what a node has free, and what each job holds there: its update may take the place of what it has.
type site struct {
	free fleet.Amount
	held map[jobID]fleet.Amount
}

type jobID struct{ namespace, id string }

func newCapacity(s *state.Store, f func(context.Context) (*fleet.Fleet, error)) *capacity {
	return &capacity{state: s, fleet: f, asks: map[string]fleet.Amount{}, sites: map[string]*site{}}
}

// look takes the nodes as they are now.
func (r *capacity) look(ctx context.Context) error {
	f, err := r.fleet(ctx)
	if err != nil {
		return err
	}
	r.now, r.evicts = f, r.state.Read().SchedulerConfig().PreemptionConfig
	clear(r.sites)
	return nil
}

// fits reports whether the node may have capacity for what the evaluation waits for: surely not when that is more than
// what is free there together with what its job holds there, unless it may evict others.
func (r *capacity) fits(e *api.Evaluation, node string) bool {
	s := r.site(node)
	if mayEvict(e.Type, r.evicts) {
		return s != nil
	}
	return s != nil && r.ask(e).Exceeds(s.free.Add(s.held[jobID{e.Namespace, e.JobID}])) == ""
}

func mayEvict(kind string, c api.PreemptionConfig) bool {
	switch kind {
	case api.JobTypeSystem:
		return c.SystemSchedulerEnabled
	case api.JobTypeSysbatch:
		return c.SysBatchSchedulerEnabled
	case api.JobTypeBatch:
		return c.BatchSchedulerEnabled
	}
	return c.ServiceSchedulerEnabled
}

// site is the node, or nil when there is none.
func (r *capacity) site(node string) *site {
	s, known := r.sites[node]
	if known {
		return s
	}
	if row := r.now.Row(r.now.Find(node)); row != nil {
		s = &site{free: row.Total.Sub(row.Used), held: map[jobID]fleet.Amount{}}
		for a := range r.state.Read().AllocsByNode(node) {
			if !a.ClientTerminal() {
				key := jobID{a.Namespace, a.JobID}
				s.held[key] = s.held[key].Add(fleet.LoadOfAlloc(a).Amount)
			}
		}
	}
	r.sites[node] = s
	return s
}

func (r *capacity) ask(e *api.Evaluation) fleet.Amount {
	ask, known := r.asks[e.ID]
	if !known {
		ask = leastAsk(r.state.Read(), e)
		r.asks[e.ID] = ask
	}
	return ask
}

// leastAsk is what the smallest group needs that the evaluation could not place. Until canaries are promoted, and when
// they never will be, groups are placed as they were in older versions, too.
func leastAsk(tx *state.Txn, e *api.Evaluation) fleet.Amount {
	failed := e.FailedTGAllocs
	if before := tx.Eval(e.PreviousEval); len(failed) == 0 && before != nil {
		failed = before.FailedTGAllocs
	}
	j := tx.Job(e.Namespace, e.JobID)
	if j == nil {
		return fleet.Amount{}
	}
	versions := []*api.Job{j}
	for d := range tx.DeploymentsByJob(e.Namespace, e.JobID) {
		if d.Active() || d.Status == api.DeploymentStatusFailed && d.JobVersion == j.Version && d.JobCreateIndex == j.CreateIndex {
			versions = append(versions, olderVersions(tx, j)...)
			break
		}
	}
	var least *fleet.Amount
	for _, v := range versions {
		for _, g := range v.TaskGroups {
			if len(failed) > 0 && failed[g.Name] == nil {
				continue
			}
			ask := fleet.AskOf(g)
			if least != nil {
				ask = ask.Min(*least)
			}
			least = &ask
		}
	}
	if least == nil {
		return fleet.Amount{}
	}
	return *least
}

// olderVersions are those that are kept, and those that allocations have, which may be kept no more.
func olderVersions(tx *state.Txn, j *api.Job) []*api.Job {
	versions := tx.JobVersions(j.Namespace, j.ID)
	known := map[*api.Job]bool{}
	for a := range tx.AllocsByJob(j.Namespace, j.ID) {
		if a.Job != nil && !known[a.Job] {
			known[a.Job] = true
			versions = append(versions, a.Job)
		}
	}
	return versions
}
