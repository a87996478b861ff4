package api

// JobStatusesRequest lists the state of jobs with their allocations.
type JobStatusesRequest struct {
	// Jobs are those to list; empty lists all.
	Jobs []NamespacedID `msg:",omitempty"`
	// IncludeChildren lists instances of periodic and parameterized jobs too.
	IncludeChildren bool `msg:",omitempty"`
	QueryOptions    `json:"-"`
}

// NamespacedID names an object in a namespace.
type NamespacedID struct {
	ID        string `msg:",omitempty"`
	Namespace string `msg:",omitempty"`
}

// JobStatusesResponse lists jobs, the one that changed first first.
type JobStatusesResponse struct {
	Jobs []*JobStatusesJob `msg:",omitempty"`
	QueryMeta
}

// JobStatusesJob is the state of a job.
type JobStatusesJob struct {
	NamespacedID
	Name        string   `msg:",omitempty"`
	Type        string   `msg:",omitempty"`
	NodePool    string   `msg:",omitempty"`
	Datacenters []string `msg:",omitempty"`
	Priority    int      `msg:",omitempty"`
	Version     uint64   `msg:",omitempty"`
	Status      string   `msg:",omitempty"`
	Stop        bool     `msg:",omitempty"`
	SubmitTime  int64    `msg:",omitempty"`
	ModifyIndex uint64   `msg:",omitempty"`
	// GroupCountSum is how many allocations the groups want.
	GroupCountSum int `msg:",omitempty"`
	// ChildStatuses are the states of the instances of a periodic or parameterized job; nil for other jobs.
	ChildStatuses    []string               `msg:",omitempty"`
	ParentID         string                 `msg:",omitempty"`
	LatestDeployment *JobStatusesDeployment `msg:",omitempty"`
	Allocs           []*JobStatusesAlloc    `msg:",omitempty"`
	// IsPack is false: jobs of the tool nomad-pack are not marked.
	IsPack bool `msg:",omitempty"`
}

// JobStatusesDeployment is the latest deployment of a job.
type JobStatusesDeployment struct {
	ID                string `msg:",omitempty"`
	JobVersion        uint64 `msg:",omitempty"`
	Status            string `msg:",omitempty"`
	StatusDescription string `msg:",omitempty"`
	IsActive          bool   `msg:",omitempty"`
	AllAutoPromote    bool   `msg:",omitempty"`
	RequiresPromotion bool   `msg:",omitempty"`
}

// JobStatusesAlloc is the state of an allocation.
type JobStatusesAlloc struct {
	ID               string            `msg:",omitempty"`
	Group            string            `msg:",omitempty"`
	ClientStatus     string            `msg:",omitempty"`
	NodeID           string            `msg:",omitempty"`
	JobVersion       uint64            `msg:",omitempty"`
	FollowupEvalID   string            `msg:",omitempty"`
	HasPausedTask    bool              `msg:",omitempty"`
	DeploymentStatus JobStatusesHealth `msg:",omitempty"`
}

// JobStatusesHealth is the health of an allocation in its deployment. Healthy is nil until it is known.
type JobStatusesHealth struct {
	Canary  bool  `msg:",omitempty"`
	Healthy *bool `msg:",omitempty"`
}
