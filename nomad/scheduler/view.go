package scheduler

import (
	"iter"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
)

// View is what the scheduler reads of a snapshot; a read transaction of the state store is one.
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
}

// Input is one evaluation to be processed.
type Input struct {
	View View
	// Fleet has at least the changes that View has.
	Fleet *fleet.Fleet
	Eval  *api.Evaluation
	// Job is used instead of the stored one when set: for dry runs.
	Job *api.Job
	Now time.Time
	// NewID makes ids of allocations and evaluations.
	NewID func() string
	// Seed decides between equally good nodes.
	Seed uint64
	// Crowded are nodes that others filled while earlier attempts at the evaluation chose them: they are taken
	// when nothing else will do.
	Crowded []string
	// Apart ranks nodes by the algorithm that the cluster does not have: earlier attempts came too late, again and again,
	// where the others place too.
	Apart bool
	// Memory keeps what was found out about the nodes for the next evaluation; nil keeps nothing.
	Memory *Memory
}

// Output is what the evaluation leads to.
type Output struct {
	Plan *api.Plan
	// DeploymentID is the deployment that the job's version is rolled out by; "" when there is none.
	DeploymentID string
	// Failed says per group why not all of it could be placed.
	Failed map[string]*api.AllocationMetric
	// Queued counts per group what could not be placed.
	Queued map[string]int
	// FollowUps are evaluations to be created, whose ids the plan mentions.
	FollowUps []*api.Evaluation
	// Classes, Escaped and Missing say what a blocked evaluation waits for.
	Classes map[string]bool
	Escaped bool
	Missing []string
	// FullNodes are nodes on which a system job found no capacity, and Watched the evaluations that wait for one
	// already, by node.
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
			r.queue(g.Name)
		}
	}
	switch r.kind() {
	case api.JobTypeSystem, api.JobTypeSysbatch:
		r.system()
		r.watch()
	default:
		r.generic()
	}
	if r.current != nil {
		r.out.DeploymentID = r.current.ID
	}
	for _, s := range r.surveys {
		in.Memory.give(s)
	}
	return r.out
}
