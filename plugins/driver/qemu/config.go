package qemu

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/lazy"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/exec"
)

// Config is the part of the agent's configuration about the driver. Use [ParseConfig].
type Config struct {
	exec.Config
	// ImagePaths are absolute directories of the host whose images tasks may use.
	ImagePaths []string
	// Args are the flags that tasks may pass, such as "-smp"; empty permits all.
	Args []string
	// Emulators are the programs that tasks may run; empty permits those whose names begin with "qemu-system-".
	Emulators []string
}

// block is the config of the driver's plugin block.
type block struct {
	ImagePaths []string `config:"image_paths"`
	Args       []string `config:"args_allowlist"`
	Emulators  []string `config:"emulators_allowlist"`
}

// ParseConfig reads the config of the plugin block of the agent's configuration; nil is that of an agent without one.
func ParseConfig(config map[string]any) (Config, error) {
	var b block
	if err := driver.DecodeConfig(Name, config, &b); err != nil {
		return Config{}, err
	}
	for i, dir := range b.ImagePaths {
		if b.ImagePaths[i] = filepath.Clean(dir); !filepath.IsAbs(dir) || b.ImagePaths[i] == "/" {
			return Config{}, invalid(`"image_paths" has %q, which is no absolute directory below the root directory`, dir)
		}
	}
	for _, flag := range b.Args {
		if !strings.HasPrefix(flag, "-") {
			return Config{}, invalid(`"args_allowlist" has %q, which is no flag: flags begin with "-"`, flag)
		}
	}
	for _, name := range b.Emulators {
		if name == "" || strings.ContainsAny(name, "/\x00") {
			return Config{}, invalid(`"emulators_allowlist" has %q, which is no name of a program`, name)
		}
	}
	c, err := exec.ParseConfigOf(Name, nil)
	return Config{Config: c, ImagePaths: b.ImagePaths, Args: b.Args, Emulators: b.Emulators}, err
}

// defaultEmulator is the program of tasks that name none.
const defaultEmulator = "qemu-system-x86_64"

// emulatorPrefix begins the names of emulators of whole machines.
const emulatorPrefix = "qemu-system-"

// taskConfig is the config block of a task.
type taskConfig struct {
	ImagePath      string            `config:"image_path,required"`
	Emulator       string            `config:"emulator"`
	MachineType    string            `config:"machine_type"`
	DriveInterface string            `config:"drive_interface"`
	Accelerator    string            `config:"accelerator"`
	Graceful       bool              `config:"graceful_shutdown"`
	GuestAgent     bool              `config:"guest_agent"`
	Args           []string          `config:"args"`
	PortMap        map[string]string `config:"port_map"`
	// ports is PortMap as numbers.
	ports map[string]int
}

// ValidateConfig checks the config block of a task.
func ValidateConfig(config map[string]any) error {
	_, err := decode(config)
	return err
}

var (
	interfaces = []string{"ide", "scsi", "sd", "mtd", "floppy", "pflash", "virtio", "none"}
	// machine is the name of a machine type, with options of it.
	machine = lazy.Regexp(`^[a-zA-Z0-9._-]+$`)
)

func decode(config map[string]any) (*taskConfig, error) {
	c := &taskConfig{
		Emulator: defaultEmulator, MachineType: "pc", DriveInterface: "ide", Accelerator: "tcg", ports: map[string]int{},
	}
	if err := driver.DecodeConfig(Name, config, c); err != nil {
		return nil, err
	}
	switch {
	case c.ImagePath == "" || strings.ContainsRune(c.ImagePath, 0):
		return nil, invalid(`"image_path" must be the path of an image, not %q`, c.ImagePath)
	case c.Emulator == "" || strings.ContainsAny(c.Emulator, "/\x00"):
		return nil, invalid(`"emulator" must be the name of a program in the PATH of the agent, not %q`, c.Emulator)
	case !machine().MatchString(c.MachineType):
		return nil, invalid(`"machine_type" must be the name of a machine, not %q`, c.MachineType)
	case !slices.Contains(interfaces, c.DriveInterface):
		return nil, invalid(`"drive_interface" must be one of %s, not %q`, strings.Join(interfaces, ", "), c.DriveInterface)
	case c.Accelerator != "tcg" && c.Accelerator != "kvm":
		return nil, invalid(`"accelerator" must be "tcg" or "kvm", not %q`, c.Accelerator)
	}
	for label, text := range c.PortMap {
		port, err := strconv.Atoi(text)
		if err != nil || port < 1 || port > 65535 {
			return nil, invalid(`"port_map" has %s = %s, which is no port`, label, text)
		}
		c.ports[label] = port
	}
	return c, nil
}

// permitted checks a task against the lists of the agent.
func (c *Config) permitted(t *taskConfig) error {
	if len(c.Emulators) == 0 && !strings.HasPrefix(t.Emulator, emulatorPrefix) {
		return invalid(`"emulator": %q does not begin with %q, and "emulators_allowlist" of the node's agent does not have it`, t.Emulator, emulatorPrefix)
	}
	if len(c.Emulators) > 0 && !slices.Contains(c.Emulators, t.Emulator) {
		return invalid(`"emulator": "emulators_allowlist" of the node's agent does not have %q`, t.Emulator)
	}
	if len(c.Args) == 0 {
		return nil
	}
	for _, arg := range t.Args {
		if strings.HasPrefix(arg, "-") && !slices.ContainsFunc(c.Args, func(flag string) bool { return strings.TrimLeft(flag, "-") == strings.TrimLeft(arg, "-") }) {
			return invalid(`"args": "args_allowlist" of the node's agent does not have %q`, arg)
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fault.New(fault.Invalid, "config of driver "+Name+": "+format, args...)
}
