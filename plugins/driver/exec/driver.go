package exec

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// defaultUser is the account of tasks that name none.
const defaultUser = "nobody"

// Driver runs isolated tasks. Use New.
type Driver struct{ *rawexec.Driver }

// New makes the driver; it touches nothing before its first task.
func New(c Config, log hclog.Logger) *Driver {
	return c.driver(&rawexec.Variant{Name: Name, Validate: ValidateConfig, Plan: c.plan, Try: try, Limits: true}, log)
}

func (c *Config) driver(v *rawexec.Variant, log hclog.Logger) *Driver {
	return &Driver{rawexec.NewVariant(v, rawexec.Config{
		Enabled: true, StateDir: c.StateDir, LeaseDir: c.LeaseDir, Program: c.Program, NoCgroups: c.NoCgroups,
		CgroupParent: c.CgroupParent, PIDsLimit: c.PIDsLimit,
		DeniedUIDs: c.DeniedUIDs, DeniedGIDs: c.DeniedGIDs,
	}, log)}
}

func (c *Config) name() string { return cmp.Or(c.Driver, Name) }

// plan returns a task as raw_exec starts it, and how it is isolated.
func (c *Config) plan(t *driver.Task) (*driver.Task, frame.Isolation, error) {
	config, err := decode(c.name(), t.Config)
	if err != nil {
		return nil, frame.Isolation{}, err
	}
	bounding, ambient, err := c.capabilitiesOf(config)
	if err != nil {
		return nil, frame.Isolation{}, err
	}
	i := frame.Isolation{
		On: true, Root: c.root(), Bounding: int64(bounding), Ambient: int64(ambient),
		PID: cmp.Or(config.PIDMode, c.DefaultPIDMode) != host, IPC: cmp.Or(config.IPCMode, c.DefaultIPCMode) != host,
	}
	if missing := c.missing(); len(missing) > 0 && t.Event != nil {
		t.Event("chroot_env: the node does not have, and the task does not see: " + strings.Join(missing, ", "))
	}
	own := *t
	own.User = cmp.Or(t.User, defaultUser)
	own.Config = map[string]any{"command": config.Command, "args": config.Args, "work_dir": config.WorkDir}
	own.Devices = slices.Clone(t.Devices)
	for n := range own.Devices { // the root directory has none of the host's
		own.Devices[n].TaskPath = cmp.Or(own.Devices[n].TaskPath, own.Devices[n].HostPath)
		if p := own.Devices[n].Permissions; p != "" && !(strings.Contains(p, "r") && strings.Contains(p, "w")) {
			return nil, frame.Isolation{}, fault.New(fault.Invalid,
				"device %s: driver %s gives device nodes for reading and writing, not with the permissions %q", own.Devices[n].HostPath, c.name(), p)
		}
	}
	return &own, i, nil
}

// root lists what tasks see of the host, outer directories before those inside of them.
func (c *Config) root() (out []frame.Mount) {
	env := maps.Clone(c.ChrootEnv)
	if len(env) == 0 {
		env = map[string]string{}
		for _, path := range DefaultChrootEnv {
			env[path] = path
		}
	}
	for _, from := range slices.Sorted(maps.Keys(env)) {
		out = append(out, frame.Mount{Source: filepath.Clean(from), Destination: filepath.Clean(env[from]), ReadOnly: true})
	}
	slices.SortStableFunc(out, func(a, b frame.Mount) int {
		return cmp.Compare(strings.Count(a.Destination, "/"), strings.Count(b.Destination, "/"))
	})
	return out
}

// missing lists the configured parts that the node does not have. Lists for several kinds of hosts contain the default
// ones, so these are no mistake.
func (c *Config) missing() (out []string) {
	for from := range c.ChrootEnv {
		err := unix.Access(from, unix.F_OK)
		if (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)) && !slices.Contains(DefaultChrootEnv, filepath.Clean(from)) {
			out = append(out, from)
		}
	}
	slices.Sort(out)
	return out
}

// try reports whether this node can isolate tasks.
func try(ctx context.Context, program string) error {
	if err := unix.MountSetattr(-1, "", unix.AT_EMPTY_PATH, &unix.MountAttr{}); errors.Is(err, unix.ENOSYS) {
		return fault.New(fault.Unavailable, "the kernel is too old to isolate tasks: Linux 5.12 or later is needed")
	}
	return supervise.TryNamespaces(ctx, program)
}
