package exec

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
)

// Name is the name of the driver in job files.
const Name = "exec"

// The modes of process and IPC namespaces.
const (
	private = "private"
	host    = "host"
)

// Config is the part of the agent's configuration about the driver. Use [ParseConfig].
type Config struct {
	// Driver is the name of the driver in messages; empty means [Name].
	Driver string
	// StateDir keeps a few small files per task. It must survive a restart of the agent.
	StateDir string
	// LeaseDir is that of [rawexec.Config].
	LeaseDir string
	// Program is the path of the supervising program; empty installs the embedded one in StateDir.
	Program string
	// NoCgroups keeps tasks in the cgroup of the agent.
	NoCgroups bool
	// CgroupParent is the cgroup below which tasks get theirs, a path in each hierarchy; empty means "nomad.slice".
	CgroupParent string
	// PIDsLimit is how many processes and threads a task may have; 0 is 15 percent of what the kernel allows.
	PIDsLimit int64
	// ChrootEnv maps paths of the host to those at which tasks see them, read-only; empty means [DefaultChrootEnv].
	ChrootEnv map[string]string
	// DefaultPIDMode and DefaultIPCMode hold for tasks that name no mode: "private" or "host".
	DefaultPIDMode, DefaultIPCMode string
	// AllowCaps is what cap_add may ask for; a task has no other capability.
	AllowCaps []string
	// DeniedUIDs and DeniedGIDs are users and groups that no task runs as.
	DeniedUIDs, DeniedGIDs []rawexec.IDs
}

// DefaultChrootEnv are the parts of the host that tasks see without chroot_env. Those that a host does not have are left out.
var DefaultChrootEnv = []string{
	"/bin", "/etc", "/lib", "/lib32", "/lib64", "/run/resolvconf", "/run/systemd/resolve", "/sbin", "/usr",
}

// block is the config of the driver's plugin block.
type block struct {
	NoPivotRoot    bool     `config:"no_pivot_root"`
	PIDsLimit      int64    `config:"pids_limit"`
	DefaultPIDMode string   `config:"default_pid_mode"`
	DefaultIPCMode string   `config:"default_ipc_mode"`
	AllowCaps      []string `config:"allow_caps"`
	DeniedHostUIDs string   `config:"denied_host_uids"`
	DeniedHostGIDs string   `config:"denied_host_gids"`
}

// ParseConfig reads the config of the plugin block of the agent's configuration; nil is that of an agent without one.
func ParseConfig(config map[string]any) (Config, error) { return ParseConfigOf(Name, config) }

// ParseConfigOf is ParseConfig of a driver that is made by [NewProgram].
func ParseConfigOf(name string, config map[string]any) (Config, error) {
	b := block{DefaultPIDMode: private, DefaultIPCMode: private, AllowCaps: defaultCapabilities}
	if err := driver.DecodeConfig(name, config, &b); err != nil {
		return Config{}, err
	}
	c := Config{Driver: name, DefaultPIDMode: b.DefaultPIDMode, DefaultIPCMode: b.DefaultIPCMode, AllowCaps: b.AllowCaps, PIDsLimit: b.PIDsLimit}
	if b.NoPivotRoot {
		return Config{}, invalid(name, `"no_pivot_root": not in this version; remove it, and run the agent on a root directory that is no initial RAM file system`)
	}
	if b.PIDsLimit < 0 {
		return Config{}, invalid(name, `"pids_limit" must be the number of processes that a task may have, or 0 for the default, not %d`, b.PIDsLimit)
	}
	if err := checkMode(name, "default_pid_mode", c.DefaultPIDMode); err != nil {
		return Config{}, err
	}
	if err := checkMode(name, "default_ipc_mode", c.DefaultIPCMode); err != nil {
		return Config{}, err
	}
	if _, err := setOf(name, "allow_caps", c.AllowCaps); err != nil {
		return Config{}, err
	}
	var err error
	if c.DeniedUIDs, err = rawexec.ParseIDs(b.DeniedHostUIDs); err != nil {
		return Config{}, invalid(name, `"denied_host_uids" %w`, err)
	}
	if c.DeniedGIDs, err = rawexec.ParseIDs(b.DeniedHostGIDs); err != nil {
		return Config{}, invalid(name, `"denied_host_gids" %w`, err)
	}
	return c, nil
}

// CheckChrootEnv checks the paths of a chroot_env of the agent's configuration.
func CheckChrootEnv(env map[string]string) error {
	for from, to := range env {
		switch {
		case !filepath.IsAbs(from) || !filepath.IsAbs(to):
			return fault.New(fault.Invalid, "chroot_env: %q = %q: both must be absolute paths", from, to)
		case filepath.Clean(to) == "/":
			return fault.New(fault.Invalid, "chroot_env: %q = %q: nothing can replace the root directory of a task", from, to)
		case strings.ContainsRune(from+to, 0):
			return fault.New(fault.Invalid, "chroot_env: %q = %q: a NUL byte in a path", from, to)
		}
		first, _, _ := strings.Cut(filepath.Clean(to)[1:], "/")
		if slices.Contains([]string{"alloc", "dev", "local", "proc", "secrets", "tmp"}, first) {
			return fault.New(fault.Invalid, "chroot_env: %q = %q: tasks have a directory /%s of their own", from, to, first)
		}
	}
	return nil
}

// taskConfig is the config block of a task.
type taskConfig struct {
	Command string   `config:"command,required"`
	Args    []string `config:"args"`
	PIDMode string   `config:"pid_mode"`
	IPCMode string   `config:"ipc_mode"`
	CapAdd  []string `config:"cap_add"`
	CapDrop []string `config:"cap_drop"`
	WorkDir string   `config:"work_dir"`
}

// ValidateConfig checks the config block of a task.
func ValidateConfig(config map[string]any) error {
	return ValidateConfigOf(Name, config)
}

// ValidateConfigOf checks the config of a task of this driver that another driver has made from its own.
func ValidateConfigOf(name string, config map[string]any) error {
	_, err := decode(name, config)
	return err
}

func decode(name string, config map[string]any) (*taskConfig, error) {
	c := &taskConfig{}
	if err := driver.DecodeConfig(name, config, c); err != nil {
		return nil, err
	}
	switch {
	case c.Command == "":
		return nil, invalid(name, `"command" is empty`)
	case c.WorkDir != "" && !filepath.IsAbs(c.WorkDir) || strings.ContainsRune(c.WorkDir, 0):
		return nil, invalid(name, `"work_dir" must be an absolute path, not %q`, c.WorkDir)
	}
	for key, mode := range map[string]string{"pid_mode": c.PIDMode, "ipc_mode": c.IPCMode} {
		if mode != "" {
			if err := checkMode(name, key, mode); err != nil {
				return nil, err
			}
		}
	}
	if _, err := setOf(name, "cap_add", c.CapAdd); err != nil {
		return nil, err
	}
	_, err := setOf(name, "cap_drop", c.CapDrop)
	return c, err
}

func checkMode(name, key, mode string) error {
	if mode != private && mode != host {
		return invalid(name, "%q must be %q or %q, not %q", key, private, host, mode)
	}
	return nil
}

func invalid(name, format string, args ...any) error {
	return fault.New(fault.Invalid, "config of driver "+name+": "+format, args...)
}
