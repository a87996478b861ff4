package scheduler

import (
	"iter"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/scheduler/quota"
)

// View is the part of a state snapshot that the scheduler reads. A read transaction of the state store implements it.
type View interface {
	Index() uint64
	Node(id string) *api.Node
	Alloc(id string) *api.Allocation
	Job(ns, id string) *api.Job
	Eval(id string) *api.Evaluation
	AllocsByJob(ns, job string) iter.Seq[*api.Allocation]
	AllocsByNode(node string) iter.Seq[*api.Allocation]
	EvalsByJob(ns, job string) iter.Seq[*api.Evaluation]
	DeploymentsByJob(ns, job string) iter.Seq[*api.Deployment]
	SchedulerConfig() *api.SchedulerConfiguration
	NodePool(name string) *api.NodePool
	feasible.VolumeView
	quota.View
}

// Input is one evaluation to be processed.
type Input struct {
	View View
	// Fleet is at least as recent as View.
	Fleet *fleet.Fleet
	Eval  *api.Evaluation
	// Job, when set, replaces the stored job: for dry runs.
	Job *api.Job
	Now time.Time
	// NewID returns IDs for allocations and evaluations.
	NewID func() string
	// Seed breaks ties between nodes with equal scores.
	Seed uint64
	// Contended are nodes whose placements were rejected in earlier attempts of the evaluation, because other plans
	// filled them first. They are used only when no other node fits.
	Contended []string
	// OppositeAlgorithm ranks nodes by the algorithm that the cluster is not configured with. Set it when earlier
	// attempts lost to concurrent plans repeatedly.
	OppositeAlgorithm bool
	// Rankings caches node rankings for the next evaluation; nil caches nothing.
	Rankings *RankingCache
	// Quotas caches what quotas use for the next evaluation; nil caches nothing.
	Quotas *quota.Cache
}

// Output is the result of an evaluation.
type Output struct {
	Plan *api.Plan
	// DeploymentID is the deployment of the job's version; "" when there is none.
	DeploymentID string
	// Failed holds, per group, why some allocations were not placed.
	Failed map[string]*api.AllocationMetric
	// Queued counts, per group, the allocations that were not placed.
	Queued map[string]int
	// FollowUps are evaluations to be created; the plan refers to their IDs.
	FollowUps []*api.Evaluation
	// Classes, Escaped and Missing define what a blocked evaluation waits for.
	Classes map[string]bool
	Escaped bool
	Missing []string
	// QuotaReached is the quota that did not permit a placement; "" when there is none. QuotaReason is why.
	QuotaReached, QuotaReason string
	// FullNodes are nodes on which a system job found no capacity. Watched are the existing evaluations that wait for
	// one node, by node.
	FullNodes []string
	Watched   map[string]string
}

// Empty reports whether the plan changes nothing.
func (o *Output) Empty() bool {
	p := o.Plan
	return len(p.NodeUpdate) == 0 && len(p.NodeAllocation) == 0 && len(p.NodePreemptions) == 0 &&
		p.Deployment == nil && len(p.DeploymentUpdates) == 0
}

// Schedule processes the evaluation.
func Schedule(in Input) *Output {
	r := newRun(in)
	if r.job != nil {
		for _, g := range r.job.TaskGroups {
			r.resetQueued(g.Name)
		}
	}
	switch r.kind() {
	case api.JobTypeSystem, api.JobTypeSysbatch:
		r.system()
		r.findWatched()
	default:
		r.generic()
	}
	if r.current != nil {
		r.out.DeploymentID = r.current.ID
	}
	for _, s := range r.rankings {
		in.Rankings.put(s)
	}
	return r.out
}
