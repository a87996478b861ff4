package exec

import (
	"context"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// Program is a driver whose tasks run a program of the node and are isolated as those of exec are.
type Program struct {
	// Validate checks the config block of a task.
	Validate func(config map[string]any) error
	// Plan returns a task with a config block of exec. It may add mounts and devices.
	Plan func(t *driver.Task) (*driver.Task, error)
	// Unlimited is set when a task uses more memory than it reserves: it has a weight and its cores only.
	Unlimited bool
	// Probe reports whether the node has the program.
	Probe func(ctx context.Context) driver.Fingerprint
}

// NewProgram makes the driver that has the name [Config].Driver; it touches nothing before its first task.
func NewProgram(c Config, p Program, log hclog.Logger) *Driver {
	plan := func(t *driver.Task) (*driver.Task, frame.Isolation, error) {
		own, err := p.Plan(t)
		if err != nil {
			return nil, frame.Isolation{}, err
		}
		return c.plan(own)
	}
	return c.driver(&rawexec.Variant{Name: c.Driver, Validate: p.Validate, Plan: plan, Try: try, Limits: !p.Unlimited, Probe: p.Probe}, log)
}
