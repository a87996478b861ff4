package nodes

import (
	"path"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// evalSet creates at most one evaluation per job.
type evalSet struct {
	tx      *state.Txn
	node    *api.Node
	trigger string
	seed    string
	seen    map[[2]string]bool
	ids     []string
}

func newEvals(tx *state.Txn, n *api.Node, trigger, seed string) *evalSet {
	return &evalSet{tx: tx, node: n, trigger: trigger, seed: seed, seen: map[[2]string]bool{}}
}

// add evaluates the job or, when it was removed, the version that a still runs.
func (s *evalSet) add(j *api.Job, a *api.Allocation) {
	if j == nil && a != nil {
		j = a.Job
	}
	if j == nil || s.seen[[2]string{j.Namespace, j.ID}] {
		return
	}
	s.seen[[2]string{j.Namespace, j.ID}] = true
	now := s.tx.Now().UnixNano()
	e := &api.Evaluation{
		ID:              fsm.DerivedID(s.seed, j.Namespace, j.ID),
		Namespace:       j.Namespace,
		JobID:           j.ID,
		Priority:        j.Priority,
		Type:            j.Type,
		TriggeredBy:     s.trigger,
		NodeID:          s.node.ID,
		NodeModifyIndex: s.tx.Index(),
		Status:          api.EvalStatusPending,
		CreateTime:      now,
		ModifyTime:      now,
	}
	s.tx.PutEval(e)
	s.ids = append(s.ids, e.ID)
}

// evaluate creates evaluations of all jobs that have something on the node, of those whose CSI plugin the node needs, and
// of all system jobs that could have something there.
func evaluate(tx *state.Txn, n *api.Node, trigger, seed string) []string {
	evals := newEvals(tx, n, trigger, seed)
	for _, a := range slices.Collect(tx.AllocsByNode(n.ID)) {
		if !a.Terminal() || a.ClientStatus == api.AllocClientStatusUnknown {
			evals.add(tx.Job(a.Namespace, a.JobID), a)
		}
	}
	for _, j := range slices.Collect(tx.Jobs(api.AllNamespaces)) {
		system := systemJob(j)
		if !j.Stop && !template(j) && (system && mayRun(j, n) || (system || j.Type == api.JobTypeService) && needs(tx, n, j)) {
			evals.add(j, nil)
		}
	}
	return evals.ids
}

// needs reports whether the node needs a CSI plugin that the job runs.
func needs(tx *state.Txn, n *api.Node, j *api.Job) bool {
	return slices.ContainsFunc(j.TaskGroups, func(g *api.TaskGroup) bool {
		return feasible.RunsPlugin(g) && feasible.NeedsPlugin(tx, n, g)
	})
}

func systemJob(j *api.Job) bool {
	return j.Type == api.JobTypeSystem || j.Type == api.JobTypeSysbatch
}

// template reports whether the job is only there to be dispatched or launched as others.
func template(j *api.Job) bool {
	return j.Periodic != nil || j.ParameterizedJob != nil
}

func mayRun(j *api.Job, n *api.Node) bool {
	if j.NodePool != "" && j.NodePool != api.NodePoolAll && j.NodePool != n.NodePool {
		return false
	}
	return len(j.Datacenters) == 0 || slices.ContainsFunc(j.Datacenters, func(glob string) bool {
		ok, err := path.Match(glob, n.Datacenter)
		return ok && err == nil
	})
}
