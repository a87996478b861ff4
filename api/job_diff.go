package api

// JobDiff is the difference between two versions of a job.
type JobDiff struct {
	Type       string           `msg:",omitempty"`
	ID         string           `msg:",omitempty"`
	Fields     []*FieldDiff     `msg:",omitempty"`
	Objects    []*ObjectDiff    `msg:",omitempty"`
	TaskGroups []*TaskGroupDiff `msg:",omitempty"`
}

// TaskGroupDiff is the difference of one group.
type TaskGroupDiff struct {
	Type    string            `msg:",omitempty"`
	Name    string            `msg:",omitempty"`
	Fields  []*FieldDiff      `msg:",omitempty"`
	Objects []*ObjectDiff     `msg:",omitempty"`
	Tasks   []*TaskDiff       `msg:",omitempty"`
	Updates map[string]uint64 `msg:",omitempty"`
}

// TaskDiff is the difference of one task.
type TaskDiff struct {
	Type        string        `msg:",omitempty"`
	Name        string        `msg:",omitempty"`
	Fields      []*FieldDiff  `msg:",omitempty"`
	Objects     []*ObjectDiff `msg:",omitempty"`
	Annotations []string      `msg:",omitempty"`
}

// ObjectDiff is the change of a nested block.
type ObjectDiff struct {
	Type    string        `msg:",omitempty"`
	Name    string        `msg:",omitempty"`
	Fields  []*FieldDiff  `msg:",omitempty"`
	Objects []*ObjectDiff `msg:",omitempty"`
}

// FieldDiff is the change of one field.
type FieldDiff struct {
	Type        string   `msg:",omitempty"`
	Name        string   `msg:",omitempty"`
	Old         string   `msg:",omitempty"`
	New         string   `msg:",omitempty"`
	Annotations []string `msg:",omitempty"`
}

// PlanAnnotations contains the changes of a plan per group.
type PlanAnnotations struct {
	DesiredTGUpdates map[string]*DesiredUpdates `msg:",omitempty"`
	PreemptedAllocs  []*AllocStub               `msg:",omitempty"`
}

// DesiredUpdates counts what a plan does to one group.
type DesiredUpdates struct {
	Ignore            uint64 `msg:",omitempty"`
	Place             uint64 `msg:",omitempty"`
	Migrate           uint64 `msg:",omitempty"`
	Stop              uint64 `msg:",omitempty"`
	InPlaceUpdate     uint64 `msg:",omitempty"`
	DestructiveUpdate uint64 `msg:",omitempty"`
	Canary            uint64 `msg:",omitempty"`
	Preemptions       uint64 `msg:",omitempty"`
	Disconnect        uint64 `msg:",omitempty"`
	Reconnect         uint64 `msg:",omitempty"`
	RescheduleNow     uint64 `msg:",omitempty"`
	RescheduleLater   uint64 `msg:",omitempty"`
}
