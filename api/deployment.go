package api

import "time"

// Deployment tracks the roll-out of one job version.
type Deployment struct {
	ID                 string                      `msg:",omitempty"`
	Namespace          string                      `msg:",omitempty"`
	JobID              string                      `msg:",omitempty"`
	JobVersion         uint64                      `msg:",omitempty"`
	JobModifyIndex     uint64                      `msg:",omitempty"`
	JobSpecModifyIndex uint64                      `msg:",omitempty"`
	JobCreateIndex     uint64                      `msg:",omitempty"`
	IsMultiregion      bool                        `msg:",omitempty"`
	TaskGroups         map[string]*DeploymentState `msg:",omitempty"`
	Status             string                      `msg:",omitempty"`
	StatusDescription  string                      `msg:",omitempty"`
	EvalPriority       int                         `msg:",omitempty"`
	CreateIndex        uint64                      `msg:",omitempty"`
	ModifyIndex        uint64                      `msg:",omitempty"`
	CreateTime         int64                       `msg:",omitempty"`
	ModifyTime         int64                       `msg:",omitempty"`
}

// DeploymentState is the progress of one group within a deployment.
type DeploymentState struct {
	PlacedCanaries    []string      `msg:",omitempty"`
	AutoRevert        bool          `msg:",omitempty"`
	ProgressDeadline  time.Duration `msg:",omitempty"`
	RequireProgressBy time.Time     `msg:",omitempty"`
	AutoPromote       bool          `msg:",omitempty"`
	Promoted          bool          `msg:",omitempty"`
	DesiredCanaries   int           `msg:",omitempty"`
	DesiredTotal      int           `msg:",omitempty"`
	PlacedAllocs      int           `msg:",omitempty"`
	HealthyAllocs     int           `msg:",omitempty"`
	UnhealthyAllocs   int           `msg:",omitempty"`
}

// Active reports whether the deployment is not over: it may still place, promote or fail.
func (d *Deployment) Active() bool {
	switch d.Status {
	case DeploymentStatusFailed, DeploymentStatusSuccessful, DeploymentStatusCancelled:
		return false
	}
	return true
}
