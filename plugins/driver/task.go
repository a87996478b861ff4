package driver

import (
	"encoding/json"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/fileowner"
)

// Task is all that a driver needs to run one attempt of a task. Strings are interpolated already.
type Task struct {
	// ID names the attempt on this node: alloc id, task name and attempt joined by slashes.
	ID        string
	AllocID   string
	Name      string
	JobID     string
	JobName   string
	TaskGroup string
	Namespace string
	NodeID    string
	NodeName  string

	// Config is the config block of the job file.
	Config map[string]any
	// Env is the whole environment of the task.
	Env map[string]string
	// User is the account to run as; empty means the driver's default.
	User string
	// Groups are ids of groups that the processes have in addition to those of User.
	Groups []int64

	// Dir is the task's directory on the host and the working directory of drivers without isolation.
	Dir string
	// AllocDir is the directory on the host that the tasks of the allocation share.
	AllocDir string
	// SecretsDir is the task's directory for secrets on the host.
	SecretsDir string

	Logs      Logs
	Resources Resources
	Mounts    []Mount
	Devices   []Device
	// NetworkMode is that of the group's network; empty and "host" are the network of the host.
	NetworkMode string
	// Network is the path of the network namespace that the task runs in; empty is that of the host. Hostname is the name of
	// the host that the task sees; empty is that of the host.
	Network, Hostname string
	// Ports are those that the scheduler gave to the group, and to the task.
	Ports []Port
	// Event records an event of the task for people, such as the progress of a download; nil records none.
	Event func(text string) `json:"-"`
	// Lease bounds the use of volumes whose storage cannot cut this node off; nil when there are none.
	Lease *Lease
}

// Lease is a promise to the servers: the task has ended, and its volumes are unmounted, before the end of the
// term in which none of this node's heartbeats was answered.
type Lease struct {
	Term api.LeaseTerm
	// From is when the last answered heartbeat was sent: CLOCK_BOOTTIME in nanoseconds.
	From int64
	// Unmount lists the paths on the host to unmount after the end, inner ones first.
	Unmount []string
	// Beside lists where else on the host the same volumes may be mounted.
	Beside []string
	// Container is the id of a container whose processes end with the lease; only drivers of containers set it.
	Container string
	// Shared is set when other tasks use them whose drivers are no [LeaseKeeper].
	Shared bool
}

// Logs describes where the output of a task is kept: at most MaxFiles files of MaxFileSizeMB MiB per stream,
// named <task>.stdout.<n> and <task>.stderr.<n> in Dir.
type Logs struct {
	// Dir is the logs directory of the allocation on the host.
	Dir string
	// MaxFiles counts the files per stream; 0 means 10.
	MaxFiles int
	// MaxFileSizeMB bounds one file; 0 means 10.
	MaxFileSizeMB int
	// Disabled throws the output away.
	Disabled bool
}

// Resources is what the scheduler gave to the task; zero means no limit.
type Resources struct {
	// CPUShares is in MHz, of the NodeCPUShares that all cores of the node have together.
	CPUShares     int64
	NodeCPUShares int64
	// Cores is the list of reserved cores, such as "0-1,4".
	Cores string
	// MemoryMB is the reserved and, when MemoryMaxMB is zero, the largest memory.
	MemoryMB    int64
	MemoryMaxMB int64
}

// Port is a port of the host that a task gets by its label.
type Port struct {
	Label  string
	HostIP string
	Value  int
	// To is the port inside the task; 0 is that of the host.
	To int
}

// Mount shows a host path inside the task.
type Mount struct {
	// Source is a directory, file or device node on the host.
	Source string
	// Destination is a path inside the task; a relative one lies under the task's directory.
	Destination string
	ReadOnly    bool
	// Propagation is private, host-to-task or bidirectional; empty means private, which still shows the
	// node's later mounts below Source when Source lies on a shared mount.
	Propagation string
	// SELinuxLabel is z or Z when the engine of containers is to label the files; other drivers do not look at it.
	SELinuxLabel string
	// SubPath is a directory below Source that is shown instead of it. It exists. Drivers reach it without
	// following links, since workloads write there.
	SubPath string
	// Owner is who gets SubPath when the node makes it; drivers do not look at it.
	Owner *api.VolumeOwner
	// ShownOwner is who the task sees as the owner of what is mounted; drivers look at UserNS instead. Nil is who owns it.
	ShownOwner *fileowner.Owner
	// UserNS is the path of a user namespace with which the mount maps the owners of files, as long as Start runs. Empty
	// means that the task sees the owners that the files have.
	UserNS string
}

// Device gives the task a device node of the host.
type Device struct {
	HostPath string
	TaskPath string
	// Permissions is made of the letters r, w and m; empty means rwm.
	Permissions string
}

// Handle is what the node stores of a started task, as JSON. Only the driver that made it reads State.
type Handle struct {
	Driver    string
	TaskID    string
	Version   int
	StartedAt time.Time
	State     json.RawMessage `json:",omitempty"`
}

// Exit is how the main process of a task ended.
type Exit struct {
	// Code is the exit code; 128 + Signal after a signal.
	Code int
	// Signal is the signal that ended it, or 0.
	Signal int
	// OOMKilled is set when the kernel killed it for want of memory.
	OOMKilled bool
	// LeaseEnded is set when the task was ended because its [Lease] had ended.
	LeaseEnded bool
	// Err explains why the outcome is not known or not the task's own doing; empty otherwise.
	Err string
}

// Successful reports whether the task ended as it should.
func (e *Exit) Successful() bool { return e.Code == 0 && e.Signal == 0 && e.Err == "" }

// State is where a task stands.
type State string

// The states of a task that a driver knows.
const (
	// StateRunning means that the main process runs.
	StateRunning State = "running"
	// StateExited means that the main process has ended.
	StateExited State = "exited"
)

// Status is what a driver knows of a task.
type Status struct {
	ID        string
	State     State
	StartedAt time.Time
	// FinishedAt is zero while the task runs.
	FinishedAt time.Time
	// Exit is nil while the task runs.
	Exit *Exit
	// Attributes are facts of the driver for people, such as the pid.
	Attributes map[string]string
}
