package api

import "time"

// Evaluation asks the scheduler to look at one job again.
type Evaluation struct {
	ID                      string                       `msg:",omitempty"`
	Priority                int                          `msg:",omitempty"`
	Type                    string                       `msg:",omitempty"`
	TriggeredBy             string                       `msg:",omitempty"`
	Namespace               string                       `msg:",omitempty"`
	JobID                   string                       `msg:",omitempty"`
	JobModifyIndex          uint64                       `msg:",omitempty"`
	NodeID                  string                       `msg:",omitempty"`
	NodeModifyIndex         uint64                       `msg:",omitempty"`
	DeploymentID            string                       `msg:",omitempty"`
	Status                  string                       `msg:",omitempty"`
	StatusDescription       string                       `msg:",omitempty"`
	Wait                    time.Duration                `json:",omitempty" msg:",omitempty"`
	WaitUntil               time.Time                    `json:",omitzero" msg:",omitempty"`
	NextEval                string                       `msg:",omitempty"`
	PreviousEval            string                       `msg:",omitempty"`
	BlockedEval             string                       `msg:",omitempty"`
	RelatedEvals            []*EvaluationStub            `msg:",omitempty"`
	FailedTGAllocs          map[string]*AllocationMetric `json:",omitempty" msg:",omitempty"`
	PlanAnnotations         *PlanAnnotations             `msg:",omitempty"`
	ClassEligibility        map[string]bool              `msg:",omitempty"`
	EscapedComputedClass    bool                         `msg:",omitempty"`
	QuotaLimitReached       string                       `msg:",omitempty"`
	MissingNonNodeResources []string                     `msg:",omitempty"`
	AnnotatePlan            bool                         `msg:",omitempty"`
	QueuedAllocations       map[string]int               `msg:",omitempty"`
	SnapshotIndex           uint64                       `msg:",omitempty"`
	CreateIndex             uint64                       `msg:",omitempty"`
	ModifyIndex             uint64                       `msg:",omitempty"`
	CreateTime              int64                        `msg:",omitempty"`
	ModifyTime              int64                        `msg:",omitempty"`
}

// EvaluationStub is the row of an evaluation in lists of related ones.
type EvaluationStub struct {
	ID                string    `msg:",omitempty"`
	Priority          int       `msg:",omitempty"`
	Type              string    `msg:",omitempty"`
	TriggeredBy       string    `msg:",omitempty"`
	Namespace         string    `msg:",omitempty"`
	JobID             string    `msg:",omitempty"`
	NodeID            string    `msg:",omitempty"`
	DeploymentID      string    `msg:",omitempty"`
	Status            string    `msg:",omitempty"`
	StatusDescription string    `msg:",omitempty"`
	WaitUntil         time.Time `json:",omitzero" msg:",omitempty"`
	NextEval          string    `msg:",omitempty"`
	PreviousEval      string    `msg:",omitempty"`
	BlockedEval       string    `msg:",omitempty"`
	CreateIndex       uint64    `msg:",omitempty"`
	ModifyIndex       uint64    `msg:",omitempty"`
	CreateTime        int64     `msg:",omitempty"`
	ModifyTime        int64     `msg:",omitempty"`
}
