package java

import (
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/exec"
)

// taskConfig is the config block of a task.
type taskConfig struct {
	JarPath    string   `config:"jar_path"`
	Class      string   `config:"class"`
	ClassPath  string   `config:"class_path"`
	JVMOptions []string `config:"jvm_options"`
	Args       []string `config:"args"`
	PIDMode    string   `config:"pid_mode"`
	IPCMode    string   `config:"ipc_mode"`
	CapAdd     []string `config:"cap_add"`
	CapDrop    []string `config:"cap_drop"`
	WorkDir    string   `config:"work_dir"`
}

// ParseConfig reads the config of the plugin block of the agent's configuration; nil is that of an agent without one.
func ParseConfig(config map[string]any) (exec.Config, error) { return exec.ParseConfigOf(Name, config) }

// ValidateConfig checks the config block of a task.
func ValidateConfig(config map[string]any) error {
	_, err := execConfig(Name, config)
	return err
}

// execConfig returns the config of exec that runs the program of a task in the virtual machine at the path java.
func execConfig(java string, config map[string]any) (map[string]any, error) {
	var c taskConfig
	if err := driver.DecodeConfig(Name, config, &c); err != nil {
		return nil, err
	}
	switch {
	case c.JarPath == "" && c.Class == "":
		return nil, invalid(`"jar_path" or "class" is required`)
	case c.JarPath != "" && c.Class != "":
		return nil, invalid(`only one of "jar_path" and "class" may be set: a jar names its main class in its manifest`)
	}
	out := map[string]any{"command": java, "args": c.command()}
	for key, value := range map[string]string{"pid_mode": c.PIDMode, "ipc_mode": c.IPCMode, "work_dir": c.WorkDir} {
		out[key] = value
	}
	out["cap_add"], out["cap_drop"] = c.CapAdd, c.CapDrop
	return out, exec.ValidateConfigOf(Name, out)
}

// command lists the arguments of the virtual machine.
func (c *taskConfig) command() []string {
	out := append([]string{}, c.JVMOptions...)
	if c.ClassPath != "" {
		out = append(out, "-cp", c.ClassPath)
	}
	if c.JarPath != "" {
		out = append(out, "-jar", c.JarPath)
	} else {
		out = append(out, c.Class)
	}
	return append(out, c.Args...)
}

func invalid(text string) error {
	return fault.New(fault.Invalid, "config of driver %s: %s", Name, text)
}
