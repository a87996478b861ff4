package driver

import (
	"context"
	"errors"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// Driver runs tasks of one kind. Methods may be called from many goroutines; the package comment defines what each
// promises.
type Driver interface {
	// Name is the name that job files use, such as "raw_exec".
	Name() string
	// Capabilities returns what tasks of the driver can use. It never changes.
	Capabilities() Capabilities
	// ValidateConfig checks the config block of a task; the error names every unknown or ill-typed key.
	ValidateConfig(config map[string]any) error
	// Fingerprint opens a channel of health reports; it ends with the context.
	Fingerprint(ctx context.Context) (<-chan Fingerprint, error)
	// Start runs the task and returns the handle that Recover takes.
	Start(ctx context.Context, task *Task) (*Handle, error)
	// Recover takes up a task that an earlier agent process started.
	Recover(ctx context.Context, handle *Handle) error
	// Wait blocks until the task has exited.
	Wait(ctx context.Context, id string) (*Exit, error)
	// Stop signals the task, waits for it at most the timeout and then kills all of it. An empty signal is
	// the driver's default; one that the driver does not know is left out.
	Stop(ctx context.Context, id, signal string, timeout time.Duration) error
	// Destroy kills the task if it runs and forgets it.
	Destroy(ctx context.Context, id string) error
	// Inspect returns the state of the task.
	Inspect(id string) (*Status, error)
	// Stats returns the current use of resources.
	Stats(ctx context.Context, id string) (*api.TaskResourceUsage, error)
	// Signal sends a signal to the task's main process.
	Signal(ctx context.Context, id, signal string) error
}

// LeaseKeeper is a driver whose supervising processes keep the lease of a task even when the agent is dead.
// With other drivers the agent alone keeps it.
type LeaseKeeper interface {
	// Renew moves on the time from which the lease of a running task counts; see [Lease]. A time of 0 only asks whether
	// the lease is kept. An error of class fault.Unimplemented means that the driver, or the task, has none.
	Renew(id string, from int64) error
}

// Keeper is a driver whose supervising processes keep the lease also after their tasks have ended, until the volumes are
// unmounted: the agent may die before.
type Keeper interface {
	// Keep moves on the time from which the leases of ended tasks count, unless it is 0, and releases those that are
	// not needed: the allocation has nothing mounted under a lease any more.
	Keep(from int64, needed func(allocID string) bool)
	// Recall takes up leases that are kept for ended tasks, which an earlier agent process has forgotten.
	Recall(ctx context.Context) error
}

// Isolation is how much of the host's file system a task sees.
type Isolation string

// The isolations.
const (
	// IsolationNone shows the task the host's files; paths in its environment are host paths.
	IsolationNone Isolation = "none"
	// IsolationChroot gives the task a root directory made of parts of the host.
	IsolationChroot Isolation = "chroot"
	// IsolationImage gives the task the files of an image.
	IsolationImage Isolation = "image"
)

// Capabilities is what tasks of a driver can use.
type Capabilities struct {
	// Mounts is set when [Task].Mounts are honoured.
	Mounts bool
	// Owners is set when [Mount].UserNS is honoured.
	Owners bool
	// Signals is set when Signal works.
	Signals bool
	// Exec is set when commands can be run inside a running task.
	Exec bool
	// Isolation is the part of the host that a task sees; it defines which paths the environment of the task holds.
	Isolation Isolation
	// Networks is set when [Task].Network and Hostname are honoured.
	Networks bool
	// Remote is set when tasks do not run on this host.
	Remote bool
}

// Health is the state of a driver on its node.
type Health string

// The states of health.
const (
	// Undetected means that the node has not what the driver needs, or that it is not enabled.
	Undetected Health = "undetected"
	// Unhealthy means that the driver is there and cannot run tasks now.
	Unhealthy Health = "unhealthy"
	// Healthy means that the driver can run tasks.
	Healthy Health = "healthy"
)

// Fingerprint is one report of a driver about itself.
type Fingerprint struct {
	Health Health
	// Description is the reason, for people.
	Description string
	// Attributes become node attributes; an empty value removes one.
	Attributes map[string]string
	// Err is set when the driver could not find out.
	Err error
}

// Recoverable reports whether starting a task again may work after err.
func Recoverable(err error) bool { return errors.Is(err, fault.Unavailable) }
