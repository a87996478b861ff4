package api

import (
	"encoding/json"
	"time"
)

// Task is one process of a group, run by a driver.
type Task struct {
	Name            string                 `hcl:"name,label" msg:",omitempty"`
	Driver          string                 `hcl:"driver,optional" msg:",omitempty"`
	User            string                 `hcl:"user,optional" msg:",omitempty"`
	Lifecycle       *TaskLifecycle         `hcl:"lifecycle,block" msg:",omitempty"`
	Config          map[string]any         `hcl:"config,block" msg:",omitempty"`
	Constraints     []*Constraint          `hcl:"constraint,block" msg:",omitempty"`
	Affinities      []*Affinity            `hcl:"affinity,block" msg:",omitempty"`
	Env             map[string]string      `hcl:"env,block" msg:",omitempty"`
	Services        []*Service             `hcl:"service,block" msg:",omitempty"`
	Resources       *Resources             `hcl:"resources,block" msg:",omitempty"`
	RestartPolicy   *RestartPolicy         `hcl:"restart,block" msg:",omitempty"`
	Meta            map[string]string      `hcl:"meta,block" msg:",omitempty"`
	KillTimeout     time.Duration          `hcl:"kill_timeout,optional" msg:",omitempty"`
	LogConfig       *LogConfig             `hcl:"logs,block" msg:",omitempty"`
	Artifacts       []*TaskArtifact        `hcl:"artifact,block" msg:",omitempty"`
	Vault           *Vault                 `hcl:"vault,block" msg:",omitempty"`
	Consul          *Consul                `hcl:"consul,block" msg:",omitempty"`
	Templates       []*Template            `hcl:"template,block" msg:",omitempty"`
	DispatchPayload *DispatchPayloadConfig `hcl:"dispatch_payload,block" msg:",omitempty"`
	VolumeMounts    []*VolumeMount         `hcl:"volume_mount,block" msg:",omitempty"`
	CSIPluginConfig *CSIPluginConfig       `hcl:"csi_plugin,block" msg:",omitempty"`
	Leader          bool                   `hcl:"leader,optional" msg:",omitempty"`
	ShutdownDelay   time.Duration          `hcl:"shutdown_delay,optional" msg:",omitempty"`
	KillSignal      string                 `hcl:"kill_signal,optional" msg:",omitempty"`
	Kind            string                 `hcl:"kind,optional" msg:",omitempty"`
	ScalingPolicies []*ScalingPolicy       `hcl:"scaling,block" msg:",omitempty"`
	Secrets         []*Secret              `hcl:"secret,block" msg:",omitempty"`
	Identity        *WorkloadIdentity      `msg:",omitempty"`
	Identities      []*WorkloadIdentity    `hcl:"identity,block" msg:",omitempty"`
	Actions         []*Action              `hcl:"action,block" msg:",omitempty"`
	Schedule        *TaskSchedule          `hcl:"schedule,block" msg:",omitempty"`
}

// TaskLifecycle runs a task before, concurrently with or after the main tasks.
type TaskLifecycle struct {
	Hook    string `hcl:"hook" msg:",omitempty"`
	Sidecar bool   `hcl:"sidecar,optional" msg:",omitempty"`
}

// LogConfig limits the log files of a task: MaxFiles of at most MaxFileSizeMB MiB per stream.
type LogConfig struct {
	MaxFiles      int  `hcl:"max_files,optional" msg:",omitempty"`
	MaxFileSizeMB int  `hcl:"max_file_size,optional" msg:",omitempty"`
	Enabled       bool `hcl:"enabled,optional" msg:",omitempty"`
	Disabled      bool `hcl:"disabled,optional" msg:",omitempty"`
}

// TaskArtifact is a file fetched before a task starts.
type TaskArtifact struct {
	GetterSource   string            `hcl:"source,optional" msg:",omitempty"`
	GetterOptions  map[string]string `hcl:"options,block" msg:",omitempty"`
	GetterHeaders  map[string]string `hcl:"headers,block" msg:",omitempty"`
	GetterMode     string            `hcl:"mode,optional" msg:",omitempty"`
	GetterInsecure bool              `hcl:"insecure,optional" msg:",omitempty"`
	RelativeDest   string            `hcl:"destination,optional" msg:",omitempty"`
	Chown          bool              `hcl:"chown,optional" msg:",omitempty"`
}

// Template is a file rendered into a task's directory.
type Template struct {
	SourcePath    string        `hcl:"source,optional" msg:",omitempty"`
	DestPath      string        `hcl:"destination,optional" msg:",omitempty"`
	EmbeddedTmpl  string        `hcl:"data,optional" msg:",omitempty"`
	ChangeMode    string        `hcl:"change_mode,optional" msg:",omitempty"`
	ChangeScript  *ChangeScript `hcl:"change_script,block" msg:",omitempty"`
	ChangeSignal  string        `hcl:"change_signal,optional" msg:",omitempty"`
	Once          bool          `hcl:"once,optional" msg:",omitempty"`
	Splay         time.Duration `hcl:"splay,optional" msg:",omitempty"`
	Perms         string        `hcl:"perms,optional" msg:",omitempty"`
	Uid           int           `hcl:"uid,optional" msg:",omitempty"`
	Gid           int           `hcl:"gid,optional" msg:",omitempty"`
	LeftDelim     string        `hcl:"left_delimiter,optional" msg:",omitempty"`
	RightDelim    string        `hcl:"right_delimiter,optional" msg:",omitempty"`
	Envvars       bool          `hcl:"env,optional" msg:",omitempty"`
	VaultGrace    time.Duration `hcl:"vault_grace,optional" msg:",omitempty"`
	Wait          *WaitConfig   `hcl:"wait,block" msg:",omitempty"`
	ErrMissingKey bool          `hcl:"error_on_missing_key,optional" msg:",omitempty"`
}

// ChangeScript is run inside a task when a template changes.
type ChangeScript struct {
	Command          string        `hcl:"command" msg:",omitempty"`
	Args             []string      `hcl:"args,optional" msg:",omitempty"`
	Timeout          time.Duration `hcl:"timeout,optional" msg:",omitempty"`
	FailOnError      bool          `hcl:"fail_on_error,optional" msg:",omitempty"`
	RunOnFirstRender bool          `hcl:"run_on_first_render,optional" msg:",omitempty"`
}

// WaitConfig bounds the wait before a changed template is rendered.
type WaitConfig struct {
	Min time.Duration `hcl:"min,optional" msg:",omitempty"`
	Max time.Duration `hcl:"max,optional" msg:",omitempty"`
}

// DispatchPayloadConfig names the file that receives a dispatched payload.
type DispatchPayloadConfig struct {
	File string `hcl:"file,optional" msg:",omitempty"`
}

// VolumeMount mounts a group's volume into a task.
type VolumeMount struct {
	Volume          string `hcl:"volume,optional" msg:",omitempty"`
	Destination     string `hcl:"destination,optional" msg:",omitempty"`
	ReadOnly        bool   `hcl:"read_only,optional" msg:",omitempty"`
	PropagationMode string `hcl:"propagation_mode,optional" msg:",omitempty"`
	SELinuxLabel    string `hcl:"selinux_label,optional" msg:",omitempty"`
	// SubPath is a directory of the volume to mount instead of its root; it is made when missing.
	SubPath string `json:",omitempty" hcl:"sub_path,optional" msg:",omitempty"`
	// Owner is the user and the group, as "1000:1000", that the task sees as the owner of the mounted directory.
	Owner string `json:",omitempty" hcl:"owner,optional" msg:",omitempty"`
}

// CSIPluginConfig makes a task a CSI plugin: id, kind and the paths inside the task.
type CSIPluginConfig struct {
	ID                  string        `hcl:"id,optional" msg:",omitempty"`
	Type                string        `hcl:"type,optional" msg:",omitempty"`
	MountDir            string        `hcl:"mount_dir,optional" msg:",omitempty"`
	StagePublishBaseDir string        `hcl:"stage_publish_base_dir,optional" msg:",omitempty"`
	HealthTimeout       time.Duration `hcl:"health_timeout,optional" msg:",omitempty"`
}

// Action is a command that users may run inside a running task by name.
type Action struct {
	Name    string   `hcl:"name,label" msg:",omitempty"`
	Command string   `hcl:"command" msg:",omitempty"`
	Args    []string `hcl:"args,optional" msg:",omitempty"`
}

// Secret is a secret that is fetched for a task.
type Secret struct {
	Name     string            `hcl:"name,label" msg:",omitempty"`
	Provider string            `hcl:"provider,optional" msg:",omitempty"`
	Path     string            `hcl:"path,optional" msg:",omitempty"`
	Config   map[string]any    `hcl:"config,block" msg:",omitempty"`
	Env      map[string]string `hcl:"env,block" msg:",omitempty"`
}

// TaskSchedule limits when a task runs.
type TaskSchedule struct {
	Cron *TaskScheduleCron `hcl:"cron,block" msg:",omitempty"`
}

// TaskScheduleCron is a schedule by cron expression.
type TaskScheduleCron struct {
	Start    string `hcl:"start,optional" msg:",omitempty"`
	End      string `hcl:"end,optional" msg:",omitempty"`
	Timezone string `hcl:"timezone,optional" msg:",omitempty"`
}

// WorkloadIdentity is a signed identity of a task or service.
type WorkloadIdentity struct {
	Name         string        `hcl:"name,optional" msg:",omitempty"`
	Audience     []string      `hcl:"aud,optional" msg:",omitempty"`
	ChangeMode   string        `hcl:"change_mode,optional" msg:",omitempty"`
	ChangeSignal string        `hcl:"change_signal,optional" msg:",omitempty"`
	Env          bool          `hcl:"env,optional" msg:",omitempty"`
	File         bool          `hcl:"file,optional" msg:",omitempty"`
	Filepath     string        `hcl:"filepath,optional" msg:",omitempty"`
	ServiceName  string        `hcl:"service_name,optional" msg:",omitempty"`
	TTL          time.Duration `hcl:"ttl,optional" msg:",omitempty"`
	ExtraClaims  []string      `hcl:"extra_claims,optional" msg:",omitempty"`
}

// Vault is a task's access to Vault.
type Vault struct {
	Policies             []string `hcl:"policies,optional" msg:",omitempty"`
	Role                 string   `hcl:"role,optional" msg:",omitempty"`
	Namespace            string   `hcl:"namespace,optional" msg:",omitempty"`
	Cluster              string   `hcl:"cluster,optional" msg:",omitempty"`
	Env                  bool     `hcl:"env,optional" msg:",omitempty"`
	DisableFile          bool     `hcl:"disable_file,optional" msg:",omitempty"`
	ChangeMode           string   `hcl:"change_mode,optional" msg:",omitempty"`
	ChangeSignal         string   `hcl:"change_signal,optional" msg:",omitempty"`
	AllowTokenExpiration bool     `hcl:"allow_token_expiration,optional" msg:",omitempty"`
}

// Consul names the Consul namespace, cluster and partition.
type Consul struct {
	Namespace string `hcl:"namespace,optional" msg:",omitempty"`
	Cluster   string `hcl:"cluster,optional" msg:",omitempty"`
	Partition string `hcl:"partition,optional" msg:",omitempty"`
}

// TaskState is where a task stands, with its latest events.
type TaskState struct {
	State       string       `msg:",omitempty"`
	Failed      bool         `msg:",omitempty"`
	Restarts    uint64       `msg:",omitempty"`
	LastRestart time.Time    `msg:",omitempty"`
	StartedAt   time.Time    `msg:",omitempty"`
	FinishedAt  time.Time    `msg:",omitempty"`
	Events      []*TaskEvent `msg:",omitempty"`
	Paused      string       `msg:",omitempty"`
}

// TaskEvent is something that happened to a task; Time in Unix nanoseconds.
type TaskEvent struct {
	Type           string            `msg:",omitempty"`
	Time           int64             `msg:",omitempty"`
	DisplayMessage string            `msg:",omitempty"`
	Details        map[string]string `msg:",omitempty"`
	Message        string            `msg:",omitempty"`
	FailsTask      bool              `msg:",omitempty"`
	ExitCode       int               `msg:",omitempty"`
	Signal         int               `msg:",omitempty"`
	// TaskEventCause is nil where nothing of it is known; in JSON its fields are the event's own.
	*TaskEventCause `msg:",omitempty"`
}

// TaskEventCause has the fields of some events only; KillTimeout and StartDelay in nanoseconds.
type TaskEventCause struct {
	RestartReason    string        `msg:",omitempty"`
	SetupError       string        `msg:",omitempty"`
	DriverError      string        `msg:",omitempty"`
	DriverMessage    string        `msg:",omitempty"`
	KillReason       string        `msg:",omitempty"`
	KillTimeout      time.Duration `msg:",omitempty"`
	KillError        string        `msg:",omitempty"`
	StartDelay       int64         `msg:",omitempty"`
	DownloadError    string        `msg:",omitempty"`
	ValidationError  string        `msg:",omitempty"`
	DiskLimit        int64         `msg:",omitempty"`
	DiskSize         int64         `msg:",omitempty"`
	FailedSibling    string        `msg:",omitempty"`
	VaultError       string        `msg:",omitempty"`
	TaskSignalReason string        `msg:",omitempty"`
	TaskSignal       string        `msg:",omitempty"`
	GenericSource    string        `msg:",omitempty"`
}

// MarshalJSON writes all fields, also those of a cause that is nil.
func (e TaskEvent) MarshalJSON() ([]byte, error) {
	type plain TaskEvent
	if e.TaskEventCause == nil {
		e.TaskEventCause = &TaskEventCause{}
	}
	return json.Marshal(plain(e))
}
