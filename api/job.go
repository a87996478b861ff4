package api

import (
	"strings"
	"time"
)

// Job is what users submit. ID is unique within Namespace; Version counts changes from 0.
type Job struct {
	Region                   string                  `hcl:"region,optional" msg:",omitempty"`
	Namespace                string                  `hcl:"namespace,optional" msg:",omitempty"`
	ID                       string                  `hcl:"id,optional" msg:",omitempty"`
	Name                     string                  `hcl:"name,optional" msg:",omitempty"`
	Type                     string                  `hcl:"type,optional" msg:",omitempty"`
	Priority                 int                     `hcl:"priority,optional" msg:",omitempty"`
	AllAtOnce                bool                    `hcl:"all_at_once,optional" msg:",omitempty"`
	Datacenters              []string                `hcl:"datacenters,optional" msg:",omitempty"`
	NodePool                 string                  `hcl:"node_pool,optional" msg:",omitempty"`
	Constraints              []*Constraint           `hcl:"constraint,block" msg:",omitempty"`
	Affinities               []*Affinity             `hcl:"affinity,block" msg:",omitempty"`
	TaskGroups               []*TaskGroup            `hcl:"group,block" msg:",omitempty"`
	Update                   *UpdateStrategy         `hcl:"update,block" msg:",omitempty"`
	Multiregion              *Multiregion            `hcl:"multiregion,block" msg:",omitempty"`
	Spreads                  []*Spread               `hcl:"spread,block" msg:",omitempty"`
	Periodic                 *PeriodicConfig         `hcl:"periodic,block" msg:",omitempty"`
	ParameterizedJob         *ParameterizedJobConfig `hcl:"parameterized,block" msg:",omitempty"`
	Meta                     map[string]string       `hcl:"meta,block" msg:",omitempty"`
	UI                       *JobUIConfig            `hcl:"ui,block" msg:",omitempty"`
	Stop                     bool                    `msg:",omitempty"`
	ParentID                 string                  `msg:",omitempty"`
	Dispatched               bool                    `msg:",omitempty"`
	DispatchIdempotencyToken string                  `msg:",omitempty"`
	Payload                  []byte                  `msg:",omitempty"`
	ConsulNamespace          string                  `msg:",omitempty"`
	VaultNamespace           string                  `msg:",omitempty"`
	NomadTokenID             string                  `msg:",omitempty"`
	Status                   string                  `msg:",omitempty"`
	StatusDescription        string                  `msg:",omitempty"`
	Stable                   bool                    `msg:",omitempty"`
	Version                  uint64                  `msg:",omitempty"`
	SubmitTime               int64                   `msg:",omitempty"`
	CreateIndex              uint64                  `msg:",omitempty"`
	ModifyIndex              uint64                  `msg:",omitempty"`
	JobModifyIndex           uint64                  `msg:",omitempty"`
	VersionTag               *JobVersionTag          `msg:",omitempty"`
}

// JobVersionTag names a version of a job.
type JobVersionTag struct {
	Name        string `msg:",omitempty"`
	Description string `msg:",omitempty"`
	TaggedTime  int64  `msg:",omitempty"`
}

// JobUIConfig is what the web UI shows of a job.
type JobUIConfig struct {
	Description string       `hcl:"description,optional" msg:",omitempty"`
	Links       []*JobUILink `hcl:"link,block" msg:",omitempty"`
}

// JobUILink is a link shown by the web UI.
type JobUILink struct {
	Label string `hcl:"label,optional" msg:",omitempty"`
	URL   string `hcl:"url,optional" msg:",omitempty"`
}

// PeriodicConfig launches a job at given times.
type PeriodicConfig struct {
	Enabled         bool     `hcl:"enabled,optional" msg:",omitempty"`
	Spec            string   `hcl:"cron,optional" msg:",omitempty"`
	Specs           []string `hcl:"crons,optional" msg:",omitempty"`
	SpecType        string   `msg:",omitempty"`
	ProhibitOverlap bool     `hcl:"prohibit_overlap,optional" msg:",omitempty"`
	TimeZone        string   `hcl:"time_zone,optional" msg:",omitempty"`
}

// ParameterizedJobConfig makes a job a template that is dispatched.
type ParameterizedJobConfig struct {
	Payload      string   `hcl:"payload,optional" msg:",omitempty"`
	MetaRequired []string `hcl:"meta_required,optional" msg:",omitempty"`
	MetaOptional []string `hcl:"meta_optional,optional" msg:",omitempty"`
}

// Multiregion spreads a job over regions.
type Multiregion struct {
	Strategy *MultiregionStrategy `hcl:"strategy,block" msg:",omitempty"`
	Regions  []*MultiregionRegion `hcl:"region,block" msg:",omitempty"`
}

// MultiregionStrategy paces a multi-region roll-out.
type MultiregionStrategy struct {
	MaxParallel int    `hcl:"max_parallel,optional" msg:",omitempty"`
	OnFailure   string `hcl:"on_failure,optional" msg:",omitempty"`
}

// MultiregionRegion is a job's variation in one region.
type MultiregionRegion struct {
	Name        string            `hcl:",label" msg:",omitempty"`
	Count       int               `hcl:"count,optional" msg:",omitempty"`
	Datacenters []string          `hcl:"datacenters,optional" msg:",omitempty"`
	NodePool    string            `hcl:"node_pool,optional" msg:",omitempty"`
	Meta        map[string]string `hcl:"meta,block" msg:",omitempty"`
}

// UpdateStrategy paces the roll-out of a new job version.
type UpdateStrategy struct {
	Stagger          time.Duration `hcl:"stagger,optional" msg:",omitempty"`
	MaxParallel      int           `hcl:"max_parallel,optional" msg:",omitempty"`
	HealthCheck      string        `hcl:"health_check,optional" msg:",omitempty"`
	MinHealthyTime   time.Duration `hcl:"min_healthy_time,optional" msg:",omitempty"`
	HealthyDeadline  time.Duration `hcl:"healthy_deadline,optional" msg:",omitempty"`
	ProgressDeadline time.Duration `hcl:"progress_deadline,optional" msg:",omitempty"`
	Canary           int           `hcl:"canary,optional" msg:",omitempty"`
	AutoRevert       bool          `hcl:"auto_revert,optional" msg:",omitempty"`
	AutoPromote      bool          `hcl:"auto_promote,optional" msg:",omitempty"`
}

// JobStub is the row of a job in lists.
type JobStub struct {
	ID                string            `msg:",omitempty"`
	ParentID          string            `msg:",omitempty"`
	Name              string            `msg:",omitempty"`
	Namespace         string            `json:",omitempty" msg:",omitempty"`
	Datacenters       []string          `msg:",omitempty"`
	Type              string            `msg:",omitempty"`
	Priority          int               `msg:",omitempty"`
	Periodic          bool              `msg:",omitempty"`
	ParameterizedJob  bool              `msg:",omitempty"`
	Stop              bool              `msg:",omitempty"`
	Status            string            `msg:",omitempty"`
	StatusDescription string            `msg:",omitempty"`
	JobSummary        *JobSummary       `msg:",omitempty"`
	CreateIndex       uint64            `msg:",omitempty"`
	ModifyIndex       uint64            `msg:",omitempty"`
	JobModifyIndex    uint64            `msg:",omitempty"`
	SubmitTime        int64             `msg:",omitempty"`
	Meta              map[string]string `json:",omitempty" msg:",omitempty"`
	NodePool          string            `msg:",omitempty"`
}

// JobSummary counts the allocations of a job by group and state.
type JobSummary struct {
	JobID       string                      `msg:",omitempty"`
	Namespace   string                      `msg:",omitempty"`
	Summary     map[string]TaskGroupSummary `msg:",omitempty"`
	Children    *JobChildrenSummary         `msg:",omitempty"`
	CreateIndex uint64                      `msg:",omitempty"`
	ModifyIndex uint64                      `msg:",omitempty"`
}

// JobChildrenSummary counts children of a periodic or parameterised job by status.
type JobChildrenSummary struct {
	Pending int64 `msg:",omitempty"`
	Running int64 `msg:",omitempty"`
	Dead    int64 `msg:",omitempty"`
}

// TaskGroupSummary counts the allocations of a group by state.
type TaskGroupSummary struct {
	Queued   int `msg:",omitempty"`
	Complete int `msg:",omitempty"`
	Failed   int `msg:",omitempty"`
	Running  int `msg:",omitempty"`
	Starting int `msg:",omitempty"`
	Lost     int `msg:",omitempty"`
	Unknown  int `msg:",omitempty"`
}

// JobSubmission is the source text that a job was made from.
type JobSubmission struct {
	Source        string            `msg:",omitempty"`
	Format        string            `msg:",omitempty"`
	VariableFlags map[string]string `msg:",omitempty"`
	Variables     string            `msg:",omitempty"`
}

// SplitChildID splits the id of an instance of a parameterized or periodic job into the id of that job, "dispatch" or
// "periodic", and the rest. For other jobs it returns the id.
func SplitChildID(id string) (parent, kind, child string) {
	for _, infix := range []string{JobDispatchInfix, JobPeriodicInfix} {
		if i := strings.LastIndex(id, infix); i > 0 {
			return id[:i], strings.Trim(infix, "/-"), id[i+len(infix):]
		}
	}
	return id, "", ""
}
