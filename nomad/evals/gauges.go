package evals

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/nomad/broker"
)

func label(name, value string) metrics.Label { return metrics.Label{Name: name, Value: value} }

// Gauges reports the queues of evaluations and plans. They are the leader's: elsewhere they are empty.
func (s *Service) Gauges(emit metrics.Emit) {
	var queues broker.Stats
	var depth, all, escaped, quota int
	l, _ := s.leads()
	if l != nil {
		queues, depth = l.broker.Stats(), l.plans.Depth()
		all, escaped, quota = l.blocked.Count()
	}
	emit("nomad.broker.total_ready", float64(queues.Ready))
	emit("nomad.broker.total_unacked", float64(queues.Out))
	emit("nomad.broker.total_pending", float64(queues.Waiting))
	emit("nomad.broker.total_waiting", float64(queues.Delayed))
	emit("nomad.broker.total_cancelable", float64(queues.Cancelable))
	for _, kind := range shown(kinds) {
		emit("nomad.broker."+kind+".ready", float64(queues.ReadyOf[kind]))
		emit("nomad.broker."+kind+".unacked", float64(queues.OutOf[kind]))
	}
	now := time.Now()
	for _, e := range queues.Starts {
		emit("nomad.broker.eval_waiting", max(0, broker.StartOf(e).Sub(now).Seconds()), label("eval_id", e.ID), label("job", e.JobID), label("namespace", e.Namespace))
	}
	emit("nomad.blocked_evals.total_blocked", float64(all))
	emit("nomad.blocked_evals.total_escaped", float64(escaped))
	emit("nomad.blocked_evals.total_quota_limit", float64(quota))
	emit("nomad.blocked_evals.missed_wakes", float64(s.MissedWakes()))
	emit("nomad.plan.queue_depth", float64(depth))
	if l != nil {
		l.blockedGauges(emit)
		l.plans.Gauges(emit)
	}
}

// blockedJobsMax limits how many blocked evaluations are examined.
const blockedJobsMax = 1000

// blockedGauges reports the processors and the memory that blocked evaluations wait for, by job, and by datacenter and class
// of nodes where these were exhausted.
func (l *leader) blockedGauges(emit metrics.Emit) {
	type place struct{ datacenter, class string }
	type job struct{ namespace, id string }
	type amount struct{ cpu, memory float64 }
	byPlace, byJob := map[place]amount{}, map[job]amount{}
	tx := l.State.Read()
	for _, e := range l.blocked.Some(blockedJobsMax) {
		j := tx.Job(e.Namespace, e.JobID)
		if j == nil {
			continue
		}
		for _, g := range j.TaskGroups {
			m := e.FailedTGAllocs[g.Name]
			if m == nil {
				continue
			}
			missing := float64(max(1, e.QueuedAllocations[g.Name], m.CoalescedFailures+1))
			var a amount
			for _, t := range g.Tasks {
				if t.Resources != nil {
					a.cpu, a.memory = a.cpu+float64(t.Resources.CPU)*missing, a.memory+float64(t.Resources.MemoryMB)*missing
				}
			}
			add := func(before amount) amount { return amount{before.cpu + a.cpu, before.memory + a.memory} }
			byJob[job{e.Namespace, e.JobID}] = add(byJob[job{e.Namespace, e.JobID}])
			for datacenter := range m.NodesAvailable {
				if len(m.ClassExhausted) == 0 {
					byPlace[place{datacenter, ""}] = add(byPlace[place{datacenter, ""}])
				}
				for class := range m.ClassExhausted {
					byPlace[place{datacenter, class}] = add(byPlace[place{datacenter, class}])
				}
			}
		}
	}
	for p, a := range byPlace {
		emit("nomad.blocked_evals.cpu", a.cpu, label("datacenter", p.datacenter), label("node_class", p.class))
		emit("nomad.blocked_evals.memory", a.memory, label("datacenter", p.datacenter), label("node_class", p.class))
	}
	for j, a := range byJob {
		emit("nomad.blocked_evals.job.cpu", a.cpu, label("job", j.id), label("namespace", j.namespace))
		emit("nomad.blocked_evals.job.memory", a.memory, label("job", j.id), label("namespace", j.namespace))
	}
}

// invocation is the metric with the durations of a scheduler.
func invocation(e *api.Evaluation) string {
	switch e.Type {
	case api.JobTypeService, api.JobTypeBatch, api.JobTypeSystem, api.JobTypeSysbatch:
		return "nomad.worker.invoke_scheduler." + e.Type
	}
	return "nomad.worker.invoke_scheduler.other"
}
