package rules

import (
	"iter"

	"github.com/open-nomad/open-nomad/api"
)

// Status derives a job's status from what belongs to it. A job with neither allocations nor
// evaluations is dead: registering makes an evaluation, so whatever there was is over and forgotten.
func Status(j *api.Job, allocs iter.Seq[*api.Allocation], evals iter.Seq[*api.Evaluation]) string {
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
	for e := range evals {
		if !e.Terminal() {
			return api.JobStatusPending
		}
	}
	return api.JobStatusDead
}
