// Program nomad-driver-shell is an example of an external task driver: its tasks are shell scripts.
//
//	task "hello" {
//	  driver = "shell"
//	  config {
//	    script = "echo hello"
//	  }
//	}
//
// Build it into the plugin directory of an agent:
//
//	go build -o /opt/nomad/data/plugins/nomad-driver-shell ./plugins/driver/example
//
// The scripts run under the supervision of the raw_exec driver, so they outlive this process and the agent. A driver of
// another kind implements driver.Driver itself.
package main

import (
	"cmp"
	"context"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/external/serve"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
)

const name = "shell"

// agentConfig is the config of the block plugin "nomad-driver-shell" of the agent.
type agentConfig struct {
	// Shell is the program that runs scripts; default /bin/sh.
	Shell string `config:"shell"`
	// Supervisor is the supervising program, for tests; default is the one in this program.
	Supervisor string `config:"supervisor"`
}

// taskConfig is the config block of a task.
type taskConfig struct {
	Script string `config:"script,required"`
}

func main() {
	serve.Serve(serve.Plugin{
		Name: name, Version: "0.1.0", AgentConfig: agentConfig{}, TaskConfig: taskConfig{}, New: newDriver,
		Capabilities: driver.Capabilities{Mounts: true, Signals: true, Exec: true, Isolation: driver.IsolationNone},
	})
}

func newDriver(config map[string]any, stateDir string, log hclog.Logger) (driver.Driver, error) {
	var c agentConfig
	if err := driver.DecodeConfig(name, config, &c); err != nil {
		return nil, err
	}
	return &shell{
		Driver: rawexec.New(rawexec.Config{Enabled: true, StateDir: stateDir, Program: c.Supervisor}, log), program: cmp.Or(c.Shell, "/bin/sh"),
	}, nil
}

// shell is raw_exec with scripts in place of commands.
type shell struct {
	*rawexec.Driver
	program string
}

// ValidateConfig checks nothing beyond the schema, which the agent has checked.
func (s *shell) ValidateConfig(map[string]any) error { return nil }

// Fingerprint reports the health of raw_exec.
func (s *shell) Fingerprint(ctx context.Context) (<-chan driver.Fingerprint, error) {
	in, err := s.Driver.Fingerprint(ctx)
	if err != nil {
		return nil, err
	}
	out := make(chan driver.Fingerprint)
	go func() {
		defer close(out)
		for f := range in {
			f.Attributes = map[string]string{"driver." + name + ".program": s.program}
			select {
			case out <- f:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

// Start runs the script of the task.
func (s *shell) Start(ctx context.Context, t *driver.Task) (*driver.Handle, error) {
	var c taskConfig
	if err := driver.DecodeConfig(name, t.Config, &c); err != nil {
		return nil, err
	}
	own := *t
	own.Config = map[string]any{"command": s.program, "args": []string{"-c", c.Script}}
	return s.Driver.Start(ctx, &own)
}
