package state

import "github.com/open-nomad/open-nomad/api"

// JobScalingKey is the scaling events of a job.
func JobScalingKey(ns, job string) Key { return Key{TableScaling, "job", rowKey(ns, job)} }

// policiesOfJob are the scaling policies that the job's groups and tasks carry.
func policiesOfJob(j *api.Job) []string {
	var ids []string
	for _, p := range ScalingPolicies(j) {
		if p.ID != "" {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// ScalingPolicies lists the scaling policies of a job's groups and their tasks.
func ScalingPolicies(j *api.Job) []*api.ScalingPolicy {
	var all []*api.ScalingPolicy
	for _, g := range j.TaskGroups {
		if g.Scaling != nil {
			all = append(all, g.Scaling)
		}
		for _, t := range g.Tasks {
			all = append(all, t.ScalingPolicies...)
		}
	}
	return all
}

// JobByPolicy returns the job that carries the scaling policy, or nil.
func (t *Txn) JobByPolicy(id string) *api.Job { return jobs.first(t, "policy", id) }

// JobScaling returns the newest scaling events of a job, or nil.
func (t *Txn) JobScaling(ns, job string) *api.JobScalingEvents {
	return scalings.get(t, rowKey(ns, job))
}

// PutJobScaling stores the scaling events of a job.
func (t *Txn) PutJobScaling(e *api.JobScalingEvents) {
	e.ModifyIndex = t.mem.index
	scalings.put(t, e)
}
