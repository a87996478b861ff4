package mock

import (
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// taskConfig is the config block of a task. Without run_for a task ends at once.
type taskConfig struct {
	RunFor   time.Duration `config:"run_for"`
	ExitCode int           `config:"exit_code"`
	// ExitSignal is the number of the signal that the task seems to die of.
	ExitSignal int    `config:"exit_signal"`
	ExitErrMsg string `config:"exit_err_msg"`
	// SignalErr is the error of every signal; the task then ignores signals.
	SignalErr             string        `config:"signal_error"`
	StartError            string        `config:"start_error"`
	StartErrorRecoverable bool          `config:"start_error_recoverable"`
	StartBlockFor         time.Duration `config:"start_block_for"`
	// KillAfter is how long the task lives on after a stop signal; a shorter timeout kills it.
	KillAfter time.Duration `config:"kill_after"`

	StdoutString    string        `config:"stdout_string"`
	StdoutRepeat    int           `config:"stdout_repeat"`
	StdoutRepeatDur time.Duration `config:"stdout_repeat_duration"`
	StderrString    string        `config:"stderr_string"`
	StderrRepeat    int           `config:"stderr_repeat"`
	StderrRepeatDur time.Duration `config:"stderr_repeat_duration"`
}

// ValidateConfig checks the config block of a mock task.
func ValidateConfig(config map[string]any) error {
	_, err := decode(config)
	return err
}

func decode(config map[string]any) (*taskConfig, error) {
	c := &taskConfig{}
	if err := driver.DecodeConfig(Name, config, c); err != nil {
		return nil, err
	}
	for name, bad := range map[string]bool{
		"run_for": c.RunFor < 0, "kill_after": c.KillAfter < 0,
		"start_block_for": c.StartBlockFor < 0, "exit_signal": c.ExitSignal < 0 || c.ExitSignal > 64,
	} {
		if bad {
			return nil, fault.New(fault.Invalid, "config of driver %s: %q is out of range", Name, name)
		}
	}
	return c, nil
}
