package rawexec

import (
	"context"
	"maps"

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
	// Limits means that a task does not run without the limits of its resources.
	Limits bool
	// Try reports whether this node can isolate tasks with the installed program.
	Try func(ctx context.Context, program string) error
	// Probe reports whether the node has what the tasks run; nil means that they need nothing.
	Probe func(ctx context.Context) driver.Fingerprint
}

// probe adds what the variant needs of the node to the report of the driver.
func (d *Driver) probe(ctx context.Context, f driver.Fingerprint) driver.Fingerprint {
	if d.variant == nil || d.variant.Probe == nil {
		return f
	}
	own := d.variant.Probe(ctx)
	maps.Copy(f.Attributes, own.Attributes)
	if own.Health != driver.Healthy {
		f.Health, f.Description = own.Health, own.Description
	}
	if own.Health == driver.Undetected {
		f.Attributes["driver."+d.Name()] = ""
	}
	return f
}

// Name is the name of the driver in job files.
func (d *Driver) Name() string {
	if d.variant != nil {
		return d.variant.Name
	}
	return Name
}

// limits reports whether tasks do not run without limits.
func (d *Driver) limits() bool { return d.variant != nil && d.variant.Limits && !d.config.NoCgroups }

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
