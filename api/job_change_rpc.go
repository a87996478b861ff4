package api

// JobRevertRequest reverts a job to an older version. EnforcePriorVersion, when set, must be the
// current version.
type JobRevertRequest struct {
	JobID               string  `msg:",omitempty"`
	JobVersion          uint64  `msg:",omitempty"`
	EnforcePriorVersion *uint64 `msg:",omitempty"`
	WriteRequest
}

// JobStabilityRequest marks a version of a job as stable, a target of automatic reverts, or not.
type JobStabilityRequest struct {
	JobID      string `msg:",omitempty"`
	JobVersion uint64 `msg:",omitempty"`
	Stable     bool   `msg:",omitempty"`
	WriteRequest
}

// JobStabilityResponse is the response to a change of a version's stability.
type JobStabilityResponse struct {
	JobModifyIndex uint64 `json:"-" msg:",omitempty"`
	WriteMeta
}

// JobTagRequest sets the tag of a version of a job, or removes it when Unset. With Latest it applies to the newest
// version.
type JobTagRequest struct {
	JobID       string `msg:",omitempty"`
	Name        string `msg:",omitempty"`
	Version     uint64 `msg:",omitempty"`
	Latest      bool   `msg:",omitempty"`
	Description string `msg:",omitempty"`
	Unset       bool   `msg:",omitempty"`
	WriteRequest
}

// JobTagResponse contains the tag of the version after the change; empty after Unset.
type JobTagResponse struct {
	Name        string `msg:",omitempty"`
	Description string `msg:",omitempty"`
	TaggedTime  int64  `msg:",omitempty"`
	WriteMeta
}

// JobScaleRequest changes the count of a group, or only records an event when Count is nil. Target names
// the group under "Group". JobModifyIndex, when not 0, must be the job's.
type JobScaleRequest struct {
	JobID          string            `msg:",omitempty"`
	Target         map[string]string `msg:",omitempty"`
	Count          *int64            `msg:",omitempty"`
	Message        string            `msg:",omitempty"`
	Error          bool              `msg:",omitempty"`
	Meta           map[string]any    `msg:",omitempty"`
	JobModifyIndex uint64            `msg:",omitempty"`
	PolicyOverride bool              `msg:",omitempty"`
	WriteRequest
}

// ScalingEvent is a requested change of a group's count, or a message of an autoscaler. Time is in Unix
// nanoseconds.
type ScalingEvent struct {
	Count         *int64         `msg:",omitempty"`
	PreviousCount int64          `msg:",omitempty"`
	Error         bool           `msg:",omitempty"`
	Message       string         `msg:",omitempty"`
	Meta          map[string]any `msg:",omitempty"`
	EvalID        *string        `msg:",omitempty"`
	Time          int64          `msg:",omitempty"`
	CreateIndex   uint64         `msg:",omitempty"`
}

// JobScalingEvents are the newest events of a job by group, newest first; at most 20 of each.
type JobScalingEvents struct {
	Namespace   string                     `msg:",omitempty"`
	JobID       string                     `msg:",omitempty"`
	Groups      map[string][]*ScalingEvent `msg:",omitempty"`
	ModifyIndex uint64                     `msg:",omitempty"`
}

// JobScaleStatus is the scaling status of a job.
type JobScaleStatus struct {
	JobID          string                           `msg:",omitempty"`
	Namespace      string                           `msg:",omitempty"`
	JobCreateIndex uint64                           `msg:",omitempty"`
	JobModifyIndex uint64                           `msg:",omitempty"`
	JobStopped     bool                             `msg:",omitempty"`
	TaskGroups     map[string]*TaskGroupScaleStatus `msg:",omitempty"`
}

// TaskGroupScaleStatus counts a group's allocations for an autoscaler.
type TaskGroupScaleStatus struct {
	Desired   int             `msg:",omitempty"`
	Placed    int             `msg:",omitempty"`
	Running   int             `msg:",omitempty"`
	Healthy   int             `msg:",omitempty"`
	Unhealthy int             `msg:",omitempty"`
	Events    []*ScalingEvent `msg:",omitempty"`
}

// JobScaleStatusResponse holds the scaling status of a job; nil when the job does not exist.
type JobScaleStatusResponse struct {
	JobScaleStatus *JobScaleStatus `msg:",omitempty"`
	QueryMeta
}

// ScalingPolicyListRequest lists scaling policies, of one job or type when named.
type ScalingPolicyListRequest struct {
	JobID string `msg:",omitempty"`
	Type  string `msg:",omitempty"`
	QueryOptions
}

// ScalingPolicyListResponse lists scaling policies.
type ScalingPolicyListResponse struct {
	Policies []*ScalingPolicy `msg:",omitempty"`
	QueryMeta
}

// ScalingPolicyGetResponse holds one scaling policy; nil when it does not exist.
type ScalingPolicyGetResponse struct {
	Policy *ScalingPolicy `msg:",omitempty"`
	QueryMeta
}

// JobDispatchRequest runs an instance of a parameterised job. With a repeated IdempotencyToken the
// response names the existing instance.
type JobDispatchRequest struct {
	JobID            string            `msg:",omitempty"`
	Payload          []byte            `msg:",omitempty"`
	Meta             map[string]string `msg:",omitempty"`
	IDPrefixTemplate string            `json:"IdPrefixTemplate" msg:",omitempty"`
	Priority         int               `msg:",omitempty"`
	IdempotencyToken string            `json:"-" msg:",omitempty"`
	WriteRequest
}

// JobDispatchResponse names the instance.
type JobDispatchResponse struct {
	DispatchedJobID string `msg:",omitempty"`
	EvalID          string `msg:",omitempty"`
	EvalCreateIndex uint64 `msg:",omitempty"`
	JobCreateIndex  uint64 `msg:",omitempty"`
	WriteMeta
}

// PeriodicForceResponse names the evaluation of the instance that was launched outside its schedule.
type PeriodicForceResponse struct {
	EvalID          string `msg:",omitempty"`
	EvalCreateIndex uint64 `msg:",omitempty"`
	WriteMeta
}

// JobDeploymentResponse holds the newest deployment of a job; nil when there is none.
type JobDeploymentResponse struct {
	Deployment *Deployment `msg:",omitempty"`
	QueryMeta
}
