package api

import "time"

// TaskGroup is a set of tasks that run together on one node.
type TaskGroup struct {
	Name                      string                    `hcl:"name,label" msg:",omitempty"`
	Count                     int                       `hcl:"count,optional" msg:",omitempty"`
	Constraints               []*Constraint             `hcl:"constraint,block" msg:",omitempty"`
	Affinities                []*Affinity               `hcl:"affinity,block" msg:",omitempty"`
	Tasks                     []*Task                   `hcl:"task,block" msg:",omitempty"`
	Spreads                   []*Spread                 `hcl:"spread,block" msg:",omitempty"`
	Volumes                   map[string]*VolumeRequest `hcl:"volume,block" msg:",omitempty"`
	RestartPolicy             *RestartPolicy            `hcl:"restart,block" msg:",omitempty"`
	Disconnect                *DisconnectStrategy       `hcl:"disconnect,block" msg:",omitempty"`
	ReschedulePolicy          *ReschedulePolicy         `hcl:"reschedule,block" msg:",omitempty"`
	EphemeralDisk             *EphemeralDisk            `hcl:"ephemeral_disk,block" msg:",omitempty"`
	Update                    *UpdateStrategy           `hcl:"update,block" msg:",omitempty"`
	Migrate                   *MigrateStrategy          `hcl:"migrate,block" msg:",omitempty"`
	Networks                  []*NetworkResource        `hcl:"network,block" msg:",omitempty"`
	Meta                      map[string]string         `hcl:"meta,block" msg:",omitempty"`
	Services                  []*Service                `hcl:"service,block" msg:",omitempty"`
	ShutdownDelay             time.Duration             `hcl:"shutdown_delay,optional" msg:",omitempty"`
	MaxRunDuration            time.Duration             `hcl:"max_run_duration,optional" msg:",omitempty"`
	StopAfterClientDisconnect time.Duration             `hcl:"stop_after_client_disconnect,optional" msg:",omitempty"`
	MaxClientDisconnect       time.Duration             `hcl:"max_client_disconnect,optional" msg:",omitempty"`
	Scaling                   *ScalingPolicy            `hcl:"scaling,block" msg:",omitempty"`
	Consul                    *Consul                   `hcl:"consul,block" msg:",omitempty"`
	PreventRescheduleOnLost   bool                      `hcl:"prevent_reschedule_on_lost,optional" msg:",omitempty"`
}

// RestartPolicy configures restarts of a failed task on its node.
type RestartPolicy struct {
	Interval        time.Duration `hcl:"interval,optional" msg:",omitempty"`
	Attempts        int           `hcl:"attempts,optional" msg:",omitempty"`
	Delay           time.Duration `hcl:"delay,optional" msg:",omitempty"`
	Mode            string        `hcl:"mode,optional" msg:",omitempty"`
	RenderTemplates bool          `hcl:"render_templates,optional" msg:",omitempty"`
}

// ReschedulePolicy configures when a failed allocation is placed again.
type ReschedulePolicy struct {
	Attempts      int           `hcl:"attempts,optional" msg:",omitempty"`
	Interval      time.Duration `hcl:"interval,optional" msg:",omitempty"`
	Delay         time.Duration `hcl:"delay,optional" msg:",omitempty"`
	DelayFunction string        `hcl:"delay_function,optional" msg:",omitempty"`
	MaxDelay      time.Duration `hcl:"max_delay,optional" msg:",omitempty"`
	Unlimited     bool          `hcl:"unlimited,optional" msg:",omitempty"`
}

// MigrateStrategy paces the moves of a group during a drain.
type MigrateStrategy struct {
	MaxParallel     int           `hcl:"max_parallel,optional" msg:",omitempty"`
	HealthCheck     string        `hcl:"health_check,optional" msg:",omitempty"`
	MinHealthyTime  time.Duration `hcl:"min_healthy_time,optional" msg:",omitempty"`
	HealthyDeadline time.Duration `hcl:"healthy_deadline,optional" msg:",omitempty"`
}

// DisconnectStrategy configures what happens to a group whose node disconnects.
type DisconnectStrategy struct {
	LostAfter         time.Duration    `hcl:"lost_after,optional" msg:",omitempty"`
	StopOnClientAfter time.Duration    `hcl:"stop_on_client_after,optional" msg:",omitempty"`
	Replace           bool             `hcl:"replace,optional" msg:",omitempty"`
	Reconcile         *ReconcileOption `hcl:"reconcile,optional" msg:",omitempty"`
}

// EphemeralDisk is the scratch space of a group in MiB.
type EphemeralDisk struct {
	Sticky  bool `hcl:"sticky,optional" msg:",omitempty"`
	Migrate bool `hcl:"migrate,optional" msg:",omitempty"`
	SizeMB  int  `hcl:"size,optional" msg:",omitempty"`
}

// VolumeRequest is a volume that a group asks for; with PerAlloc the source gets the suffix "[index]".
type VolumeRequest struct {
	Name           string        `hcl:"name,label" msg:",omitempty"`
	Type           string        `hcl:"type,optional" msg:",omitempty"`
	Source         string        `hcl:"source,optional" msg:",omitempty"`
	ReadOnly       bool          `hcl:"read_only,optional" msg:",omitempty"`
	Sticky         bool          `hcl:"sticky,optional" msg:",omitempty"`
	AccessMode     string        `hcl:"access_mode,optional" msg:",omitempty"`
	AttachmentMode string        `hcl:"attachment_mode,optional" msg:",omitempty"`
	MountOptions   *MountOptions `hcl:"mount_options,block" msg:",omitempty"`
	PerAlloc       bool          `hcl:"per_alloc,optional" msg:",omitempty"`
}

// Constraint must hold for a node to be feasible. Operand "" means "=".
type Constraint struct {
	LTarget string `hcl:"attribute,optional" msg:",omitempty"`
	RTarget string `hcl:"value,optional" msg:",omitempty"`
	Operand string `hcl:"operator,optional" msg:",omitempty"`
}

// Affinity prefers (weight > 0) or avoids (weight < 0) nodes; -100 <= Weight <= 100.
type Affinity struct {
	LTarget string `hcl:"attribute,optional" msg:",omitempty"`
	RTarget string `hcl:"value,optional" msg:",omitempty"`
	Operand string `hcl:"operator,optional" msg:",omitempty"`
	Weight  int8   `hcl:"weight,optional" msg:",omitempty"`
}

// Spread spreads a group over the values of an attribute.
type Spread struct {
	Attribute    string          `hcl:"attribute,optional" msg:",omitempty"`
	Weight       int8            `hcl:"weight,optional" msg:",omitempty"`
	SpreadTarget []*SpreadTarget `hcl:"target,block" msg:",omitempty"`
}

// SpreadTarget is the wanted share of one value in percent.
type SpreadTarget struct {
	Value   string `hcl:",label" msg:",omitempty"`
	Percent uint8  `hcl:"percent,optional" msg:",omitempty"`
}

// ScalingPolicy bounds the count of a group or the resources of a task.
type ScalingPolicy struct {
	Min         int64             `hcl:"min,optional" msg:",omitempty"`
	Max         int64             `hcl:"max,optional" msg:",omitempty"`
	Policy      map[string]any    `hcl:"policy,block" msg:",omitempty"`
	Enabled     bool              `hcl:"enabled,optional" msg:",omitempty"`
	Type        string            `hcl:"type,optional" msg:",omitempty"`
	ID          string            `msg:",omitempty"`
	Namespace   string            `msg:",omitempty"`
	Target      map[string]string `msg:",omitempty"`
	CreateIndex uint64            `msg:",omitempty"`
	ModifyIndex uint64            `msg:",omitempty"`
}
