package rawexec

import (
	"context"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// Variant is another driver whose tasks are processes of the host under the same supervision. Its tasks are isolated.
type Variant struct {
	Name string
	// Validate checks the config block of a task.
	Validate func(config map[string]any) error
	// Plan returns a task as this package starts it, with a config of raw_exec, and how it is isolated. Its user must be
	// set.
	Plan func(t *driver.Task) (*driver.Task, frame.Isolation, error)
	// Try reports whether this node can isolate tasks with the installed program.
	Try func(ctx context.Context, program string) error
}

// Name is the name of the driver in job files.
func (d *Driver) Name() string {
	if d.variant != nil {
		return d.variant.Name
	}
	return Name
}

func (d *Driver) isolation() driver.Isolation {
	if d.variant != nil {
		return driver.IsolationChroot
	}
	return driver.IsolationNone
}

func (d *Driver) plan(t *driver.Task) (*driver.Task, frame.Isolation, error) {
	if d.variant != nil {
		return d.variant.Plan(t)
	}
	return t, frame.Isolation{}, nil
}

// baseOf is the directory of a task as the task sees it.
func (d *Driver) baseOf(t *driver.Task) string {
	if d.variant != nil {
		return "/"
	}
	return t.Dir
}
