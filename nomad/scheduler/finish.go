package scheduler

import (
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/quota"
)

// nodeBlocksMax bounds how many evaluations of a system job wait for one node each; beyond it one waits for any.
const nodeBlocksMax = 64

// Descriptions of blocked evaluations.
const (
	DescriptionBlocked = "created to place remaining allocations"
	whyMaxed           = "created due to placement conflicts"
)

// Done completes the evaluation after its plan was committed as a whole. It returns the evaluation to be stored and
// those to be created. A blocked evaluation that still cannot place everything blocks again under its own ID.
func Done(e *api.Evaluation, o *Output, snapshot uint64, now time.Time, newID func() string) []*api.Evaluation {
	done := *e
	done.Status, done.StatusDescription = api.EvalStatusComplete, ""
	done.FailedTGAllocs, done.QueuedAllocations = o.Failed, o.Queued
	done.SnapshotIndex, done.ModifyTime = snapshot, now.UnixNano()
	done.WaitUntil, done.ClassEligibility, done.EscapedComputedClass = time.Time{}, nil, false
	done.MissingNonNodeResources, done.QuotaLimitReached, done.BlockedEval = nil, "", ""
	done.DeploymentID = o.DeploymentID
	done.NextEval, done.PlanAnnotations = "", &api.PlanAnnotations{DesiredTGUpdates: o.Plan.Annotations.DesiredTGUpdates}
	if len(o.FollowUps) > 0 {
		done.NextEval = o.FollowUps[0].ID
	}
	if len(o.Failed) == 0 {
		done.FailedTGAllocs = nil
		return []*api.Evaluation{&done}
	}
	again := e.TriggeredBy == api.TriggerQueuedAllocs && (e.NodeID == "" || slices.Contains(o.FullNodes, e.NodeID))
	if again {
		block(&done, o, snapshot)
		done.StatusDescription = whyBlocked(o)
	}
	var blocked []*api.Evaluation
	if !again || e.NodeID != "" {
		blocked = blockedEvals(&done, o, snapshot, now, newID)
	}
	switch {
	case again:
	case len(blocked) > 0:
		done.BlockedEval = blocked[0].ID
	default:
		done.BlockedEval = o.Watched[slices.Min(o.FullNodes)]
	}
	return append(blocked, &done)
}

// block makes the evaluation wait for the resources that its job lacks.
func block(e *api.Evaluation, o *Output, snapshot uint64) {
	e.Status = api.EvalStatusBlocked
	e.FailedTGAllocs, e.PlanAnnotations = o.Failed, nil
	e.ClassEligibility, e.EscapedComputedClass = o.Classes, o.Escaped || e.NodeID == "" && len(o.FullNodes) > 0
	e.MissingNonNodeResources, e.SnapshotIndex = o.Missing, snapshot
	e.QuotaLimitReached = o.QuotaReached
}

func whyBlocked(o *Output) string {
	if o.QuotaReached != "" {
		return quota.LimitHit + o.QuotaReason
	}
	return DescriptionBlocked
}

// blockedEvals returns evaluations for what no other evaluation waits for yet: one per full node, or one for any change.
// An evaluation that itself waited for its node creates at most one.
func blockedEvals(e *api.Evaluation, o *Output, snapshot uint64, now time.Time, newID func() string) []*api.Evaluation {
	var nodes []string
	waits := e.Status == api.EvalStatusBlocked
	for _, n := range slices.Compact(slices.Sorted(slices.Values(o.FullNodes))) {
		if itself := waits && n == e.NodeID; o.Watched[n] == "" && !itself {
			nodes = append(nodes, n)
		}
	}
	blocked := func(node string) *api.Evaluation {
		b := child(e, api.TriggerQueuedAllocs, whyBlocked(o), now, newID)
		b.NodeID = node
		block(b, o, snapshot)
		return b
	}
	switch {
	case len(nodes) == 0 && (waits || len(o.FullNodes) > 0 && len(o.Missing) == 0 && o.QuotaReached == ""):
		return nil
	case len(nodes) == 0 || e.TriggeredBy == api.TriggerQueuedAllocs || len(nodes)+len(o.Watched) > nodeBlocksMax:
		return []*api.Evaluation{blocked("")}
	}
	var all []*api.Evaluation
	for _, n := range nodes {
		all = append(all, blocked(n))
	}
	return all
}

// child returns a new evaluation of the same job that follows e.
func child(e *api.Evaluation, trigger, why string, now time.Time, newID func() string) *api.Evaluation {
	return &api.Evaluation{
		ID: newID(), Namespace: e.Namespace, JobID: e.JobID, Type: e.Type, Priority: e.Priority,
		TriggeredBy: trigger, StatusDescription: why, JobModifyIndex: e.JobModifyIndex, PreviousEval: e.ID,
		Status: api.EvalStatusPending, CreateTime: now.UnixNano(), ModifyTime: now.UnixNano(),
	}
}

// Failed fails the evaluation after too many attempts and creates a blocked one to try again later.
func Failed(e *api.Evaluation, why string, o *Output, now time.Time, newID func() string) []*api.Evaluation {
	failed := *e
	failed.Status, failed.StatusDescription, failed.ModifyTime = api.EvalStatusFailed, why, now.UnixNano()
	b := child(e, api.TriggerMaxPlans, whyMaxed, now, newID)
	block(b, o, o.Plan.SnapshotIndex)
	b.EscapedComputedClass = true
	failed.BlockedEval = b.ID
	return []*api.Evaluation{b, &failed}
}
