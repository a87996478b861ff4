package evals

import (
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func newID() string { return uuid.NewString() }

// Preview is what registering a job would do.
type Preview struct {
	Annotations *api.PlanAnnotations
	Failed      map[string]*api.AllocationMetric
	// Created are the evaluations that would follow.
	Created []*api.Evaluation
}

// Plan runs the scheduler on a snapshot for a job that is not stored: job is as registering would store
// it, with a new JobModifyIndex when its specification changed. Nothing is written.
func Plan(tx *state.Txn, job *api.Job, now time.Time) *Preview {
	e := &api.Evaluation{
		ID: newID(), Namespace: job.Namespace, JobID: job.ID, Type: job.Type, Priority: job.Priority,
		TriggeredBy: api.TriggerJobRegister, Status: api.EvalStatusPending, AnnotatePlan: true, JobModifyIndex: job.JobModifyIndex,
	}
	o := scheduler.Schedule(scheduler.Input{
		View: tx, Fleet: fleet.Build(tx.Index(), tx.Nodes(), tx.Allocs(api.AllNamespaces)),
		Eval: e, Job: job, Now: now, NewID: newID, Seed: seedOf(e.ID, tx.Index()),
	})
	all := scheduler.Done(e, o, tx.Index(), now, newID)
	return &Preview{o.Plan.Annotations, o.Failed, append(o.FollowUps, all[:len(all)-1]...)}
}

// seedOf makes different evaluations choose differently between equal nodes.
func seedOf(evalID string, index uint64) uint64 {
	id, err := uuid.Parse(evalID)
	if err != nil {
		return index
	}
	return binary.LittleEndian.Uint64(id[:8]) ^ index
}
