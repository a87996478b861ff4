package ledger

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/jobs/diff"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Policed are the groups of a job with ids, targets and indexes in their scaling policies. The id of a
// policy follows from what it scales, so that it outlives changes of the job.
func Policed(j, old *api.Job, index uint64) []*api.TaskGroup {
	groups := slices.Clone(j.TaskGroups)
	before := map[string]*api.ScalingPolicy{}
	if old != nil {
		for _, p := range state.ScalingPolicies(old) {
			before[p.ID] = p
		}
	}
	for i, g := range groups {
		next := *g
		if g.Scaling != nil {
			next.Scaling = policy(j, g.Scaling, before, index, map[string]string{"Group": g.Name})
		}
		next.Tasks = slices.Clone(g.Tasks)
		for k, t := range g.Tasks {
			if len(t.ScalingPolicies) == 0 {
				continue
			}
			task := *t
			task.ScalingPolicies = slices.Clone(t.ScalingPolicies)
			for n, p := range t.ScalingPolicies {
				task.ScalingPolicies[n] = policy(j, p, before, index, map[string]string{"Group": g.Name, "Task": t.Name})
			}
			next.Tasks[k] = &task
		}
		groups[i] = &next
	}
	return groups
}

func policy(j *api.Job, p *api.ScalingPolicy, before map[string]*api.ScalingPolicy, index uint64, target map[string]string) *api.ScalingPolicy {
	next := *p
	target["Namespace"], target["Job"] = j.Namespace, j.ID
	next.Target = target
	next.ID = fsm.DerivedID("scaling policy", j.Namespace, j.ID, target["Group"], target["Task"], p.Type)
	next.CreateIndex, next.ModifyIndex = index, index
	if was := before[next.ID]; was != nil {
		next.CreateIndex, next.ModifyIndex = was.CreateIndex, was.ModifyIndex
		if !diff.SamePolicy(was, &next) {
			next.ModifyIndex = index
		}
	}
	return &next
}
