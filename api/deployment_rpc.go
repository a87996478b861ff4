package api

import "time"

// DeploymentListResponse lists deployments.
type DeploymentListResponse struct {
	Deployments []*Deployment `msg:",omitempty"`
	QueryMeta
}

// DeploymentGetResponse holds one deployment; nil when it does not exist.
type DeploymentGetResponse struct {
	Deployment *Deployment `msg:",omitempty"`
	QueryMeta
}

// DeploymentRequest names one deployment.
type DeploymentRequest struct {
	DeploymentID string `msg:",omitempty"`
	QueryOptions
}

// DeploymentWriteRequest fails or unblocks a deployment.
type DeploymentWriteRequest struct {
	DeploymentID string `msg:",omitempty"`
	WriteRequest
}

// DeploymentPauseRequest pauses or resumes a deployment.
type DeploymentPauseRequest struct {
	DeploymentID string `msg:",omitempty"`
	Pause        bool   `msg:",omitempty"`
	WriteRequest
}

// DeploymentPromoteRequest promotes the canaries of all groups or of those named.
type DeploymentPromoteRequest struct {
	DeploymentID string   `msg:",omitempty"`
	All          bool     `msg:",omitempty"`
	Groups       []string `msg:",omitempty"`
	WriteRequest
}

// DeploymentAllocHealthRequest sets the health of allocations by hand.
type DeploymentAllocHealthRequest struct {
	DeploymentID           string   `msg:",omitempty"`
	HealthyAllocationIDs   []string `msg:",omitempty"`
	UnhealthyAllocationIDs []string `msg:",omitempty"`
	WriteRequest
}

// DeploymentUpdateResponse is the response to every change of a deployment. RevertedJobVersion is set when the job
// was reverted to an older version.
type DeploymentUpdateResponse struct {
	EvalID                string  `msg:",omitempty"`
	EvalCreateIndex       uint64  `msg:",omitempty"`
	DeploymentModifyIndex uint64  `msg:",omitempty"`
	RevertedJobVersion    *uint64 `msg:",omitempty"`
	WriteMeta
}

// EvalDeleteRequest deletes evaluations by id or by a filter, not both. The broker must be paused.
type EvalDeleteRequest struct {
	EvalIDs []string `msg:",omitempty"`
	Filter  string   `msg:",omitempty"`
	WriteRequest
}

// EvalDeleteResponse counts the deleted evaluations.
type EvalDeleteResponse struct {
	Count int `msg:",omitempty"`
	WriteMeta
}

// EvalCountResponse counts evaluations.
type EvalCountResponse struct {
	Count int `msg:",omitempty"`
	QueryMeta
}

// EvalDequeueRequest is a worker's request for an evaluation. The leader responds when it has one, or with none
// after Wait.
type EvalDequeueRequest struct {
	Kinds []string      `msg:",omitempty"`
	Wait  time.Duration `msg:",omitempty"`
}

// EvalDequeueResponse contains an evaluation for a worker; nil when there was none. The worker's state must
// have reached WaitIndex before it schedules.
type EvalDequeueResponse struct {
	Eval      *Evaluation `msg:",omitempty"`
	Token     string      `msg:",omitempty"`
	WaitIndex uint64      `msg:",omitempty"`
}

// EvalAckRequest reports that an evaluation was processed, or must be dequeued again (Nack), or
// that the worker still processes it (Extend).
type EvalAckRequest struct {
	EvalID string `msg:",omitempty"`
	Token  string `msg:",omitempty"`
	Nack   bool   `msg:",omitempty"`
	Extend bool   `msg:",omitempty"`
}

// EvalUpdateRequest writes evaluations that the worker processed.
type EvalUpdateRequest struct {
	Token string        `msg:",omitempty"`
	Evals []*Evaluation `msg:",omitempty"`
}

// PlanSubmitRequest is a worker's plan, with the evaluations to be written when all of it is committed.
type PlanSubmitRequest struct {
	Plan  *Plan         `msg:",omitempty"`
	Evals []*Evaluation `msg:",omitempty"`
}

// PlanSubmitResponse is the committed part of a plan; Whole is set when all of it was committed.
type PlanSubmitResponse struct {
	Result *PlanResult `msg:",omitempty"`
	Whole  bool        `msg:",omitempty"`
}
