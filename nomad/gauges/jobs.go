package gauges

import (
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func label(name, value string) metrics.Label { return metrics.Label{Name: name, Value: value} }

// jobLabels are the labels of a job: a child has those of its parent and its own part of the id.
func jobLabels(namespace, id string) []metrics.Label {
	job, kind, child := api.SplitChildID(id)
	out := []metrics.Label{label("job", job), label("namespace", namespace)}
	if child != "" {
		out = append(out, label(kind+"_id", child))
	}
	return out
}

// Jobs reports the jobs by status, and the allocations of their groups by status. With noDispatched it leaves out the
// allocations of instances of parameterised jobs.
func Jobs(tx *state.Txn, emit metrics.Emit, noDispatched bool) {
	count := map[string]int{api.JobStatusPending: 0, api.JobStatusRunning: 0, api.JobStatusDead: 0}
	for j := range tx.Jobs(api.AllNamespaces) {
		count[j.Status]++
	}
	emit("nomad.job_status.pending", float64(count[api.JobStatusPending]))
	emit("nomad.job_status.running", float64(count[api.JobStatusRunning]))
	emit("nomad.job_status.dead", float64(count[api.JobStatusDead]))
	for s := range tx.JobSummaries(api.AllNamespaces) {
		if noDispatched && strings.Contains(s.JobID, api.JobDispatchInfix) {
			continue
		}
		labels := jobLabels(s.Namespace, s.JobID)
		for group, n := range s.Summary {
			all := append(labels[:len(labels):len(labels)], label("task_group", group))
			emit("nomad.job_summary.queued", float64(n.Queued), all...)
			emit("nomad.job_summary.complete", float64(n.Complete), all...)
			emit("nomad.job_summary.failed", float64(n.Failed), all...)
			emit("nomad.job_summary.running", float64(n.Running), all...)
			emit("nomad.job_summary.starting", float64(n.Starting), all...)
			emit("nomad.job_summary.lost", float64(n.Lost), all...)
			emit("nomad.job_summary.unknown", float64(n.Unknown), all...)
		}
	}
}
