package scheduler

import (
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// nodeBlocksMax bounds how many evaluations of a system job wait for one node each; beyond it one waits for any.
const nodeBlocksMax = 64

// Descriptions of blocked evaluations.
const (
	WhyBlocked = "created to place remaining allocations"
	whyMaxed   = "created due to placement conflicts"
)

// Done closes the evaluation when its plan was committed as a whole. It answers the evaluation as it is
// to be stored, and those to be created. An evaluation that was blocked and still cannot place
// everything blocks again under its own id.
func Done(e *api.Evaluation, o *Output, snapshot uint64, now time.Time, newID func() string) []*api.Evaluation {
	done := *e
	done.Status, done.StatusDescription = api.EvalStatusComplete, ""
	done.FailedTGAllocs, done.QueuedAllocations = o.Failed, o.Queued
	done.SnapshotIndex, done.ModifyTime = snapshot, now.UnixNano()
	done.WaitUntil, done.ClassEligibility, done.EscapedComputedClass = time.Time{}, nil, false
	done.MissingNonNodeResources, done.BlockedEval = nil, ""
	done.DeploymentID = o.DeploymentID
	if len(o.Failed) == 0 {
		return []*api.Evaluation{&done}
	}
	if e.TriggeredBy == api.TriggerQueuedAllocs && len(o.FullNodes) == 0 {
		wait(&done, o, snapshot)
		done.StatusDescription = WhyBlocked
		return []*api.Evaluation{&done}
	}
	blocked := blockedEvals(&done, o, snapshot, now, newID)
	done.BlockedEval = blocked[0].ID
	return append(blocked, &done)
}

func wait(e *api.Evaluation, o *Output, snapshot uint64) {
	e.Status = api.EvalStatusBlocked
	e.ClassEligibility, e.EscapedComputedClass = o.Classes, o.Escaped
	e.MissingNonNodeResources, e.SnapshotIndex = o.Missing, snapshot
}

func blockedEvals(e *api.Evaluation, o *Output, snapshot uint64, now time.Time, newID func() string) []*api.Evaluation {
	nodes := slices.Compact(slices.Sorted(slices.Values(o.FullNodes)))
	if len(nodes) == 0 || len(nodes) > nodeBlocksMax {
		b := child(e, api.TriggerQueuedAllocs, WhyBlocked, now, newID)
		wait(b, o, snapshot)
		b.EscapedComputedClass = b.EscapedComputedClass || len(nodes) > 0
		return []*api.Evaluation{b}
	}
	var all []*api.Evaluation
	for _, n := range nodes {
		b := child(e, api.TriggerQueuedAllocs, WhyBlocked, now, newID)
		wait(b, o, snapshot)
		b.NodeID = n
		all = append(all, b)
	}
	return all
}

// child is a new evaluation of the same job that follows e.
func child(e *api.Evaluation, trigger, why string, now time.Time, newID func() string) *api.Evaluation {
	return &api.Evaluation{
		ID: newID(), Namespace: e.Namespace, JobID: e.JobID, Type: e.Type, Priority: e.Priority,
		TriggeredBy: trigger, StatusDescription: why, JobModifyIndex: e.JobModifyIndex, PreviousEval: e.ID,
		Status: api.EvalStatusPending, CreateTime: now.UnixNano(), ModifyTime: now.UnixNano(),
	}
}

// GaveUp closes the evaluation after too many attempts; a blocked one is created to try again later.
func GaveUp(e *api.Evaluation, why string, o *Output, now time.Time, newID func() string) []*api.Evaluation {
	failed := *e
	failed.Status, failed.StatusDescription, failed.ModifyTime = api.EvalStatusFailed, why, now.UnixNano()
	b := child(e, api.TriggerMaxPlans, whyMaxed, now, newID)
	wait(b, o, o.Plan.SnapshotIndex)
	b.EscapedComputedClass = true
	failed.BlockedEval = b.ID
	return []*api.Evaluation{b, &failed}
}
