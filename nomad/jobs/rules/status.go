package rules

import (
	"iter"

	"github.com/open-nomad/open-nomad/api"
)

// Status derives a job's status from what belongs to it. A job with neither allocations nor
// evaluations is dead: registering makes an evaluation, so whatever there was is over and forgotten.
// A system job runs until it is stopped, also where no node suits it, and so does a job that is being rolled out.
func Status(j *api.Job, allocs iter.Seq[*api.Allocation], evals iter.Seq[*api.Evaluation], deployments iter.Seq[*api.Deployment]) string {
	if (j.Periodic != nil || j.ParameterizedJob != nil) && !j.Stop {
		return api.JobStatusRunning
	}
	for a := range allocs {
		if !a.Terminal() {
			return api.JobStatusRunning
		}
	}
	if j.Stop {
		return api.JobStatusDead
	}
	for d := range deployments {
		if d.Active() && d.JobVersion == j.Version && d.JobCreateIndex == j.CreateIndex {
			return api.JobStatusRunning
		}
	}
	open, over := false, false
	for e := range evals {
		open, over = open || !e.Terminal(), over || e.Terminal()
	}
	switch {
	case over && j.Type == api.JobTypeSystem:
		return api.JobStatusRunning
	case open:
		return api.JobStatusPending
	}
	return api.JobStatusDead
}
