package reconcile

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// Why an allocation is stopped, as users read it.
const (
	NotNeeded   = "alloc not needed due to job update"
	Migrating   = "alloc is being migrated"
	Updating    = "alloc is being updated due to job update"
	lost        = "alloc is lost since its node is down"
	nodeGone    = "alloc not needed as node is tainted"
	rescheduled = "alloc was rescheduled because it failed"
	reconnected = "alloc not needed since its node reconnected and another one stays"
	unknown     = "alloc is unknown since its node is disconnected"
	volumeLost  = "alloc is stopped because one of its volumes was released by force"
)

// Input is one group of a job and all its allocations.
type Input struct {
	// Job is nil when the job is deleted.
	Job    *api.Job
	Group  string
	Allocs []*api.Allocation
	// Deployments are all of the job, and Current is the one of its version; see [Current].
	Deployments []*api.Deployment
	Current     *api.Deployment
	// Node looks a node up; nil when it is deleted.
	Node func(id string) *api.Node
	// CanStay reports whether an allocation may stay on its node under Job; asked before in-place updates.
	CanStay func(*api.Allocation) bool
	// Needed reports whether the node of an allocation cannot do without it, for its volumes; nil when none has any.
	Needed func(*api.Allocation) bool
	// BoundToVolume reports whether an allocation that is to be replaced shares a volume that one node may use, and its successor
	// cannot be on that node: it can only leave the volume together with the others. Nil when none shares any.
	BoundToVolume func(*api.Allocation) bool
	// Pending reports whether the evaluation exists and is still to come.
	Pending func(evalID string) bool
	// EvalID is the evaluation that is being processed.
	EvalID string
	Now    time.Time
}

// Place is an allocation to be placed.
type Place struct {
	Name string
	// Previous is the allocation that it follows; nil for a new one.
	Previous *api.Allocation
	// Stop is the stop of Previous to be done only when a place was found.
	Stop *Stop
	// Together says that Previous leaves its volume together with the others that have it set: nobody can have it elsewhere
	// before the last of them is gone. They are stopped when a place for one successor was found.
	Together bool
	// Failed says that Previous failed: its nodes are avoided and the attempt is recorded.
	Failed bool
	// Canary says that it tries the job's version out next to the running allocations.
	Canary bool
	// Job is set when the allocation is to be of an older version: the new one is not promoted yet.
	Job *api.Job
	// Node is the only node that will do; empty is any.
	Node string
}

// Stop is an allocation to be stopped.
type Stop struct {
	Alloc *api.Allocation
	// ClientStatus is set when the node cannot report it: lost.
	ClientStatus string
	Description  string
}

// StatusUpdate changes the stored status of an allocation and nothing on its node.
type StatusUpdate struct {
	Alloc *api.Allocation
	// RescheduleAt is when the allocation will be replaced or lost; zero when it does not change.
	RescheduleAt time.Time
	// ClientStatus is set for allocations on disconnected nodes: unknown.
	ClientStatus string
	Description  string
}

// Result holds the changes of one group.
type Result struct {
	Stop          []Stop
	StatusUpdates []StatusUpdate
	Update        []*api.Allocation
	Place         []Place
	// Outdated are those that are to be replaced, now or later, when any is now.
	Outdated []*api.Allocation
	// State is the group's part of a deployment to be created; nil when none is.
	State *api.DeploymentState
	// Older is what runs while canaries are not promoted; else nil.
	Older *api.Job
	// Settled says that nothing is left to do and the group's part of the current deployment is done.
	Settled bool
	Desired api.DesiredUpdates
}
