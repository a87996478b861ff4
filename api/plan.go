package api

// Plan is what the scheduler wants changed. Placements carry no Job of their own: it is the plan's.
type Plan struct {
	EvalID    string `msg:",omitempty"`
	EvalToken string `msg:",omitempty"`
	Priority  int    `msg:",omitempty"`
	Job       *Job   `msg:",omitempty"`
	// AllAtOnce drops the whole plan when any node of it is rejected.
	AllAtOnce bool `msg:",omitempty"`
	// NodeUpdate lists allocations to stop, per node.
	NodeUpdate map[string][]*Allocation `msg:",omitempty"`
	// NodeAllocation lists allocations to place or update in place, per node.
	NodeAllocation map[string][]*Allocation `msg:",omitempty"`
	// NodePreemptions lists allocations to evict, per node.
	NodePreemptions map[string][]*Allocation `msg:",omitempty"`
	// Deployment is created or replaced by the plan; DeploymentUpdates change existing ones.
	Deployment        *Deployment               `msg:",omitempty"`
	DeploymentUpdates []*DeploymentStatusUpdate `msg:",omitempty"`
	Annotations       *PlanAnnotations          `msg:",omitempty"`
	// SnapshotIndex is the index of the state that the scheduler saw.
	SnapshotIndex uint64 `msg:",omitempty"`
}

// DeploymentStatusUpdate changes the status of a deployment.
type DeploymentStatusUpdate struct {
	DeploymentID      string `msg:",omitempty"`
	Status            string `msg:",omitempty"`
	StatusDescription string `msg:",omitempty"`
}

// PlanResult is what of a plan was committed.
type PlanResult struct {
	NodeUpdate      map[string][]*Allocation `msg:",omitempty"`
	NodeAllocation  map[string][]*Allocation `msg:",omitempty"`
	NodePreemptions map[string][]*Allocation `msg:",omitempty"`
	// RejectedNodes had their part dropped.
	RejectedNodes []string `msg:",omitempty"`
	// Reasons has the reason per rejected node.
	Reasons map[string]string `msg:",omitempty"`
	// RefreshIndex asks the scheduler to retry on state at least this new; 0 when all was committed.
	RefreshIndex uint64 `msg:",omitempty"`
	// AllocIndex is the raft index of the commit.
	AllocIndex uint64 `msg:",omitempty"`
}
