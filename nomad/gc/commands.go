package gc

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

//go:generate go run -modfile=../../tools/go.mod ../../cmd/nomad/codec.go . commands.go
//msgp:limit arrays:1000000 maps:1000000

// Commands registers the commands of this service.
func Commands(r *fsm.Registry) {
	r.Register(func() fsm.Command { return &Reap{} })
	r.Register(func() fsm.Command { return &Recount{} })
}

// Reap deletes objects that still count as ended when it is applied. Its result is the number of deleted objects, an int.
type Reap struct {
	Allocs      []string `msg:",omitempty"`
	Evals       []string `msg:",omitempty"`
	Deployments []string `msg:",omitempty"`
	Nodes       []string `msg:",omitempty"`
	Jobs        []JobID  `msg:",omitempty"`
}

// JobID names a job.
type JobID struct {
	Namespace string `msg:",omitempty"`
	ID        string `msg:",omitempty"`
}

// Kind implements [fsm.Command].
func (*Reap) Kind() fsm.Kind { return fsm.KindGCReap }

// Apply implements [fsm.Command]. Jobs go first: what a job that runs once did is needed as long as it is there.
func (r *Reap) Apply(tx *state.Txn) (any, error) {
	n := 0
	count := func(did bool) {
		if did {
			n++
		}
	}
	for _, id := range r.Jobs {
		j := tx.Job(id.Namespace, id.ID)
		count(j != nil && jobOver(tx, j) && nothingLeft(tx, j) && tx.DeleteJob(id.Namespace, id.ID))
	}
	for _, id := range r.Allocs {
		a := tx.Alloc(id)
		count(a != nil && allocOver(tx, a) && !remembered(tx, a) && tx.DeleteAlloc(id))
	}
	for _, id := range r.Evals {
		e := tx.Eval(id)
		count(e != nil && e.Terminal() && first(tx.AllocsByEval(id)) == nil && tx.DeleteEval(id))
	}
	for _, id := range r.Deployments {
		d := tx.Deployment(id)
		count(d != nil && deploymentOver(tx, d) && tx.DeleteDeployment(id))
	}
	together := set(r.Nodes)
	for _, id := range r.Nodes {
		node := tx.Node(id)
		if node != nil && nodeOver(tx, node, together) && tx.DeleteNode(id) {
			ledger.Purged(tx, node)
			n++
		}
	}
	return n, nil
}

// nothingLeft reports whether all evaluations and allocations of the job are over.
func nothingLeft(tx *state.Txn, j *api.Job) bool {
	for e := range tx.EvalsByJob(j.Namespace, j.ID) {
		if !e.Terminal() {
			return false
		}
	}
	for a := range tx.AllocsByJob(j.Namespace, j.ID) {
		if !allocOver(tx, a) {
			return false
		}
	}
	return true
}

func remembered(tx *state.Txn, a *api.Allocation) bool {
	j := tx.Job(a.Namespace, a.JobID)
	return j != nil && reconcile.MustRetain(a, j, j.Stop && dead(tx, j))
}

// Recount recomputes all job summaries from the allocations.
type Recount struct{}

// Kind implements [fsm.Command].
func (*Recount) Kind() fsm.Kind { return fsm.KindSummariesRecount }

// Apply implements [fsm.Command].
func (*Recount) Apply(tx *state.Txn) (any, error) {
	for j := range tx.Jobs(api.AllNamespaces) {
		old := tx.JobSummary(j.Namespace, j.ID)
		next := &api.JobSummary{Namespace: j.Namespace, JobID: j.ID, Summary: map[string]api.TaskGroupSummary{}}
		if old != nil {
			next.Children = old.Children
		}
		for _, g := range j.TaskGroups {
			s := api.TaskGroupSummary{}
			if old != nil {
				s.Queued = old.Summary[g.Name].Queued
			}
			next.Summary[g.Name] = s
		}
		for a := range tx.AllocsByJob(j.Namespace, j.ID) {
			s := next.Summary[a.TaskGroup]
			countStatus(&s, a.ClientStatus)
			next.Summary[a.TaskGroup] = s
		}
		tx.PutJobSummary(next)
	}
	return nil, nil
}

func countStatus(s *api.TaskGroupSummary, status string) {
	switch status {
	case api.AllocClientStatusPending:
		s.Starting++
	case api.AllocClientStatusRunning:
		s.Running++
	case api.AllocClientStatusComplete:
		s.Complete++
	case api.AllocClientStatusFailed:
		s.Failed++
	case api.AllocClientStatusLost:
		s.Lost++
	case api.AllocClientStatusUnknown:
		s.Unknown++
	}
}
