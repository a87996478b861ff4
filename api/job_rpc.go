package api

import "time"

//msgp:ignore JobsParseRequest

// JobRegisterRequest registers a job; with EnforceIndex only if its modify index equals JobModifyIndex.
type JobRegisterRequest struct {
	Job               *Job           `msg:",omitempty"`
	Submission        *JobSubmission `msg:",omitempty"`
	EnforceIndex      bool           `msg:",omitempty"`
	JobModifyIndex    uint64         `msg:",omitempty"`
	PreserveCounts    bool           `msg:",omitempty"`
	PreserveResources bool           `msg:",omitempty"`
	PolicyOverride    bool           `msg:",omitempty"`
	EvalPriority      int            `msg:",omitempty"`
	WriteRequest
}

// JobRegisterResponse is the response of registering, stopping or evaluating a job.
type JobRegisterResponse struct {
	EvalID          string `msg:",omitempty"`
	EvalCreateIndex uint64 `msg:",omitempty"`
	JobModifyIndex  uint64 `msg:",omitempty"`
	Warnings        string `msg:",omitempty"`
	WriteMeta
}

// JobDeregisterRequest stops a job and, with Purge, removes its record.
type JobDeregisterRequest struct {
	JobID           string `msg:",omitempty"`
	Purge           bool   `msg:",omitempty"`
	EvalPriority    int    `msg:",omitempty"`
	NoShutdownDelay bool   `msg:",omitempty"`
	// Force also stops a job with a CSI plugin that volumes need.
	Force bool `msg:",omitempty"`
	WriteRequest
}

// JobEvaluateRequest creates a new evaluation of a job.
type JobEvaluateRequest struct {
	JobID       string      `msg:",omitempty"`
	EvalOptions EvalOptions `msg:",omitempty"`
	WriteRequest
}

// EvalOptions are options of a forced evaluation.
type EvalOptions struct {
	ForceReschedule bool `msg:",omitempty"`
}

// JobPlanRequest requests the changes that registering a job would cause.
type JobPlanRequest struct {
	Job            *Job `msg:",omitempty"`
	Diff           bool `msg:",omitempty"`
	PolicyOverride bool `msg:",omitempty"`
	WriteRequest
}

// JobPlanResponse contains what registering a job would change.
type JobPlanResponse struct {
	JobModifyIndex     uint64                       `msg:",omitempty"`
	CreatedEvals       []*Evaluation                `msg:",omitempty"`
	Diff               *JobDiff                     `msg:",omitempty"`
	Annotations        *PlanAnnotations             `msg:",omitempty"`
	FailedTGAllocs     map[string]*AllocationMetric `msg:",omitempty"`
	NextPeriodicLaunch time.Time                    `msg:",omitempty"`
	Warnings           string                       `msg:",omitempty"`
	WriteMeta
}

// JobValidateRequest validates a job.
type JobValidateRequest struct {
	Job *Job `msg:",omitempty"`
	WriteRequest
}

// JobValidateResponse lists the validation errors of a job.
type JobValidateResponse struct {
	DriverConfigValidated bool     `msg:",omitempty"`
	ValidationErrors      []string `msg:",omitempty"`
	Error                 string   `msg:",omitempty"`
	Warnings              string   `msg:",omitempty"`
}

// JobsParseRequest parses a job file into JSON.
type JobsParseRequest struct {
	JobHCL       string `msg:",omitempty"`
	Variables    string `msg:",omitempty"`
	Canonicalize bool   `msg:",omitempty"`
}

// JobRequest names one job; All widens lists to earlier incarnations of the job.
type JobRequest struct {
	JobID string `msg:",omitempty"`
	All   bool   `msg:",omitempty"`
	// Version selects one version of the job where that applies.
	Version uint64 `msg:",omitempty"`
	QueryOptions
}

// JobListRequest lists jobs, of one node pool when it is named.
type JobListRequest struct {
	NodePool string `msg:",omitempty"`
	QueryOptions
}

// JobListResponse lists jobs.
type JobListResponse struct {
	Jobs []*JobStub `msg:",omitempty"`
	QueryMeta
}

// JobGetResponse holds one job; Job is nil when it does not exist.
type JobGetResponse struct {
	Job *Job `msg:",omitempty"`
	QueryMeta
}

// JobVersionsRequest lists the versions of a job, with differences when Diffs is set.
type JobVersionsRequest struct {
	JobID string `msg:",omitempty"`
	Diffs bool   `msg:",omitempty"`
	// DiffTag or DiffVersion is the version that every version is compared with, instead of its previous one.
	DiffTag     string  `msg:",omitempty"`
	DiffVersion *uint64 `msg:",omitempty"`
	QueryOptions
}

// JobVersionsResponse lists the versions of a job, newest first.
type JobVersionsResponse struct {
	Versions []*Job     `msg:",omitempty"`
	Diffs    []*JobDiff `msg:",omitempty"`
	QueryMeta
}

// JobSummaryResponse holds the summary of a job; nil when the job does not exist.
type JobSummaryResponse struct {
	JobSummary *JobSummary `msg:",omitempty"`
	QueryMeta
}

// JobSubmissionResponse holds the source text of a job; nil when none is stored.
type JobSubmissionResponse struct {
	Submission     *JobSubmission `msg:",omitempty"`
	JobModifyIndex uint64         `msg:",omitempty"`
	QueryMeta
}

// JobDeploymentsResponse lists the deployments of a job.
type JobDeploymentsResponse struct {
	Deployments []*Deployment `msg:",omitempty"`
	QueryMeta
}
