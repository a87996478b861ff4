package client

import (
	"context"
	"maps"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec/taskenv"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// Options of the client block. Lists are separated by commas.
const (
	// optionAllow and optionDeny name drivers that may, or may not, be used.
	optionAllow   = "driver.allowlist"
	optionDeny    = "driver.denylist"
	optionRawExec = "driver.raw_exec.enable"
	// optionEnv names variables of the agent that tasks do not inherit, in place of the usual ones.
	optionEnv = "env.denylist"
	// optionUsers names users that tasks of the checked drivers do not run as.
	optionUsers        = "user.denylist"
	optionCheckedUsers = "user.checked_drivers"
	// optionProbes and optionNoProbes name fingerprints that are taken, or not.
	optionProbes   = "fingerprint.allowlist"
	optionNoProbes = "fingerprint.denylist"
	// optionSize says whether the sizes of ephemeral disks are enforced where the file system can do that: true unless it is false.
	optionSize = "ephemeral_disk.enforce_size"
)

const (
	usersDenied    = "root,Administrator"
	driversChecked = "exec,qemu,java"
)

// unknownOptions are those that nothing reads.
func (c *Config) unknownOptions() []string {
	known := []string{
		optionAllow, optionDeny, optionRawExec, optionEnv, optionUsers, optionCheckedUsers, optionProbes, optionNoProbes, optionSize,
		optionProbeInterval, optionPluginCalls,
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(c.Options)), func(o string) bool { return slices.Contains(known, o) })
}

// option is a list, unless it was set the usual one.
func (c *Config) option(name, usual string) map[string]bool {
	if v, set := c.Options[name]; set {
		return names(v)
	}
	return names(usual)
}

// inherited is the environment of the agent as tasks get it.
func (c *Config) inherited(environ []string) map[string]string {
	var denied []string
	if v, set := c.Options[optionEnv]; set {
		denied = slices.Sorted(maps.Keys(names(v)))
		if denied == nil {
			denied = []string{}
		}
	}
	return taskenv.Inherited(environ, denied)
}

// probed reports whether a fingerprint is taken.
func (c *Config) probed(name string) bool {
	allow, deny := names(c.Options[optionProbes]), names(c.Options[optionNoProbes])
	return (len(allow) == 0 || allow[name]) && !deny[name]
}

// Start refuses tasks of denied users, by name and by id. A task without a user runs as the agent's where the
// driver isolates nothing.
func (a *adopted) Start(ctx context.Context, t *driver.Task) (*driver.Handle, error) {
	name := t.User
	if name == "" && a.Capabilities().Isolation == driver.IsolationNone {
		name = strconv.Itoa(os.Geteuid())
	}
	if name != "" && len(a.denied) > 0 {
		if known := account(name); a.denied[name] || a.denied[known.Username] || a.denied[known.Uid] {
			return nil, fault.New(fault.Invalid, "task %s: running as user %q is denied on this node for driver %s", t.Name, name, a.Name())
		}
	}
	return a.Driver.Start(ctx, t)
}

// account is a user by name or id, empty when there is none.
func account(name string) user.User {
	for _, look := range []func(string) (*user.User, error){user.Lookup, user.LookupId} {
		if u, err := look(name); err == nil {
			return *u
		}
	}
	return user.User{}
}

// names are the members of a list that is separated by commas.
func names(list string) map[string]bool {
	out := map[string]bool{}
	for _, n := range strings.Split(list, ",") {
		if n = strings.TrimSpace(n); n != "" {
			out[n] = true
		}
	}
	return out
}
