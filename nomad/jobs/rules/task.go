package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/ids"
	"github.com/open-nomad/open-nomad/internal/lazy"
)

func (c *check) task(where string, g *api.TaskGroup, t *api.Task) {
	c.wrong(t.Name == "alloc" || t.Name == "." || t.Name == ".." || strings.ContainsAny(t.Name, "/\\\x00"), "%s: the name is not possible for a directory", where)
	c.wrong(t.Driver == "", "%s has no driver", where)
	c.wrong(t.KillTimeout < 0, "%s: kill_timeout is negative", where)
	if u := g.Update; u != nil && c.job.Type == api.JobTypeService && u.MaxParallel > 0 && u.ProgressDeadline > 0 {
		c.wrong(t.KillTimeout > u.ProgressDeadline, "%s: kill_timeout %v is above update.progress_deadline %v: a deployment would fail before the old task ends",
			where, t.KillTimeout, u.ProgressDeadline)
	}
	c.wrong(t.ShutdownDelay < 0, "%s: shutdown_delay is negative", where)
	c.constraints(where, t.Constraints)
	c.preferences(where, t.Affinities, nil)
	c.restart(where, t.RestartPolicy)
	c.resources(where, t.Resources)
	c.logs(where, g, t.LogConfig)
	if l := t.Lifecycle; l != nil {
		c.oneOf(l.Hook, []string{api.TaskLifecycleHookPrestart, api.TaskLifecycleHookPoststart, api.TaskLifecycleHookPoststop}, "%s: lifecycle hook", where)
		c.wrong(t.Leader && l.Hook != "", "%s: a task with a lifecycle block cannot be the leader", where)
	}
	c.mounts(where, g, t)
	c.plugin(where, t.CSIPluginConfig)
	c.scaled(where, t.ScalingPolicies)
	c.templates(where, t.Driver, t.Templates)
	c.signal(where+": kill_signal", t.KillSignal)
	if t.Vault != nil {
		c.signal(where+": vault: change_signal", t.Vault.ChangeSignal)
	}
	c.artifacts(where, t.Artifacts)
	c.services(where, g, t, t.Services)
	c.secrets(where, t.Secrets)
	c.actions(where, t.Actions)
	c.identities(where, t)
	c.schedule(where, t)
}

var serviceName = lazy.Regexp(`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$`)

var actionName = lazy.Regexp(`^[a-zA-Z0-9_-]{1,128}$`)

func (c *check) actions(where string, all []*api.Action) {
	c.wrong(len(all) > entriesMax, "%s: more than %d actions", where, entriesMax)
	seen := map[string]bool{}
	for _, a := range all {
		at := fmt.Sprintf("%s, action %q", where, brief(a.Name))
		c.wrong(!actionName().MatchString(a.Name), "%s: a name has 1 to 128 letters, digits, - and _", at)
		c.wrong(seen[a.Name], "%s is there twice", at)
		seen[a.Name] = true
		c.wrong(a.Command == "" || strings.ContainsRune(a.Command, 0), "%s has no command, or one with a NUL byte", at)
		for _, arg := range a.Args {
			c.wrong(strings.ContainsRune(arg, 0), "%s: an argument contains a NUL byte", at)
		}
	}
}

var secretName = lazy.Regexp(`^[a-zA-Z0-9_]{1,128}$`)

// secrets checks the blocks of a task, which include those of its group and its job.
func (c *check) secrets(where string, all []*api.Secret) {
	c.wrong(len(all) > entriesMax, "%s: more than %d secrets", where, entriesMax)
	seen := map[string]bool{}
	for _, s := range all {
		at := fmt.Sprintf("%s, secret %q", where, brief(s.Name))
		c.wrong(!secretName().MatchString(s.Name), "%s: a name has 1 to 128 letters, digits and _", at)
		c.wrong(seen[s.Name], "%s is there twice: blocks of the job and the group count too", at)
		seen[s.Name] = true
		c.wrong(s.Path == "" || strings.ContainsRune(s.Path, 0), "%s has no path", at)
		if err := ids.CheckProvider(s.Provider); err != nil {
			c.wrong(true, "%s: %w", at, err)
		}
		builtin := s.Provider == "nomad" || s.Provider == "vault"
		c.wrong(builtin && len(s.Env) > 0, "%s: env is for executable providers only", at)
		c.wrong(!builtin && len(s.Config) > 0, "%s: config is for the providers nomad and vault only", at)
		for _, key := range sorted(s.Config) {
			_, text := s.Config[key].(string)
			c.wrong(s.Provider == "nomad" && (key != "namespace" || !text), "%s: config %q is not supported: only namespace is, a string", at, brief(key))
		}
		for _, name := range sorted(s.Env) {
			if err := ids.CheckProviderEnv(name); err != nil {
				c.wrong(true, "%s: %w", at, err)
			}
			c.wrong(strings.ContainsRune(s.Env[name], 0), "%s: env %q contains a NUL byte", at, brief(name))
		}
	}
}

// signal refuses what would pass for several signals where nodes are chosen, and be none on the node.
func (c *check) signal(what, name string) {
	c.wrong(strings.ContainsAny(name, ", \t\n"), "%s %q is not one signal", what, brief(name))
}

// outside reports whether a path, which is relative to the task's directory, leaves the allocation's.
func outside(p string) bool {
	depth := 1
	for part := range strings.SplitSeq(p, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return true
			}
		default:
			depth++
		}
	}
	return false
}

func (c *check) resources(where string, r *api.Resources) {
	if r == nil {
		return
	}
	c.wrong(r.CPU < 0 || r.Cores < 0 || r.CPU == 0 && r.Cores == 0, "%s: resources need cpu or cores", where)
	c.wrong(r.CPU > 0 && r.Cores > 0, "%s: resources have cpu and cores: only one is possible", where)
	c.wrong(r.MemoryMB < 10, "%s: memory %d MB is below the minimum of 10 MB", where, r.MemoryMB)
	c.wrong(r.MemoryMaxMB > 0 && r.MemoryMaxMB < r.MemoryMB || r.MemoryMaxMB < -1, "%s: memory_max %d MB is below memory %d MB", where, r.MemoryMaxMB, r.MemoryMB)
	c.wrong(r.SecretsMB < 0 || r.SecretsMB > r.MemoryMB, "%s: secrets %d MB do not fit into memory %d MB", where, r.SecretsMB, r.MemoryMB)
	c.atMost(r.CPU, QuantityMax, "%s: cpu", where)
	c.atMost(r.Cores, coresMax, "%s: cores", where)
	c.atMost(r.MemoryMB, QuantityMax, "%s: memory", where)
	c.atMost(r.MemoryMaxMB, QuantityMax, "%s: memory_max", where)
	c.numa(where, r)
	for _, d := range r.Devices {
		c.wrong(d.Name == "", "%s: a device has no name", where)
		at := where + fmt.Sprintf(", device %q", d.Name)
		c.constraints(at, d.Constraints)
		c.affinities(at, d.Affinities)
	}
}

// numa checks where the reserved cores shall be.
func (c *check) numa(where string, r *api.Resources) {
	n := r.NUMA
	if n == nil {
		return
	}
	c.oneOf(n.Affinity, []string{"none", "prefer", "require", ""}, "%s: numa affinity", where)
	c.wrong(n.Affinity == "require" && r.Cores == 0, "%s: numa affinity require is about reserved cores, and the task asks for none", where)
	if len(n.Devices) == 0 {
		return
	}
	c.wrong(n.Affinity == "none" || n.Affinity == "", "%s: numa devices need the affinity prefer or require", where)
	c.wrong(n.Affinity == "prefer" && r.Cores == 0, "%s: numa devices are about reserved cores, and the task asks for none", where)
	for _, name := range n.Devices {
		c.wrong(!slices.ContainsFunc(r.Devices, func(d *api.RequestedDevice) bool { return d.Name == name }), "%s: numa device %q is not the name of a device block of the task", where, name)
	}
}

func (c *check) logs(where string, g *api.TaskGroup, l *api.LogConfig) {
	if l == nil || l.Disabled {
		return
	}
	c.atMost(l.MaxFiles, entriesMax, "%s: logs max_files", where)
	c.atMost(l.MaxFileSizeMB, QuantityMax, "%s: logs max_file_size", where)
	c.wrong(l.MaxFiles < 1 || l.MaxFileSizeMB < 1, "%s: logs need max_files and max_file_size of at least 1", where)
	disk := g.EphemeralDisk
	c.wrong(disk != nil && l.MaxFiles > 0 && l.MaxFileSizeMB > disk.SizeMB/l.MaxFiles && l.MaxFiles*l.MaxFileSizeMB > defaultLogsMB,
		"%s: %d logs of %d MB do not fit into an ephemeral_disk of %d MB", where, l.MaxFiles, l.MaxFileSizeMB, sizeOf(disk))
}

// defaultLogsMB are the logs of a task that does not say how many; they are no reason to refuse a small disk.
const defaultLogsMB = 100

func sizeOf(d *api.EphemeralDisk) int {
	if d == nil {
		return 0
	}
	return d.SizeMB
}

func (c *check) templates(where, driver string, all []*api.Template) {
	seen := map[string]bool{}
	for i, t := range all {
		at := fmt.Sprintf("%s, template %d", where, i+1)
		c.wrong(t.SourcePath == "" && t.EmbeddedTmpl == "", "%s has neither source nor data", at)
		c.wrong(t.DestPath == "", "%s has no destination", at)
		c.wrong(outside(t.DestPath), "%s: destination %q is outside of the allocation", at, t.DestPath)
		c.wrong(t.DestPath != "" && seen[t.DestPath], "%s: destination %q is there twice", at, t.DestPath)
		seen[t.DestPath] = true
		c.signal(at+": change_signal", t.ChangeSignal)
		c.oneOf(t.ChangeMode, []string{"noop", "restart", "signal", "script"}, "%s: change_mode", at)
		c.wrong(t.ChangeMode == "signal" && t.ChangeSignal == "", "%s: change_mode signal needs change_signal", at)
		c.wrong(t.ChangeMode == "signal" && t.Envvars, "%s: change_mode signal does not work with env", at)
		c.wrong(t.ChangeMode == "script" && (t.ChangeScript == nil || t.ChangeScript.Command == ""), "%s: change_mode script needs change_script with a command", at)
		c.wrong(t.ChangeMode == "script" && slices.Contains(withoutCommands, driver), "%s: change_mode script: driver %s does not run commands in its tasks", at, driver)
		c.wrong(t.Splay < 0, "%s: splay is negative", at)
	}
}

// services checks the services of a group, or those of one of its tasks.
func (c *check) services(where string, g *api.TaskGroup, of *api.Task, all []*api.Service) {
	seen := map[[2]string]bool{}
	for _, s := range all {
		at := fmt.Sprintf("%s, service %q", where, s.Name)
		c.wrong(s.Provider == "nomad" && !strings.Contains(s.Name, "${") && !serviceName().MatchString(s.Name), "%s: a name has 1 to 63 letters, digits and hyphens, and no hyphen at its ends", at)
		c.wrong(s.Provider == "nomad" && seen[[2]string{s.Name, s.PortLabel}], "%s is there twice with port %q", at, s.PortLabel)
		seen[[2]string{s.Name, s.PortLabel}] = true
		c.oneOf(s.Provider, []string{"consul", "nomad", ""}, "%s: provider", at)
		c.oneOf(s.AddressMode, []string{"", "auto", "host", "driver", "alloc", "alloc_ipv6"}, "%s: address_mode", at)
		c.wrong(s.Provider == "nomad" && s.Connect != nil, "%s: connect needs the provider consul", at)
		c.wrong(!c.label(s.PortLabel) && s.AddressMode != "driver" && s.AddressMode != "alloc", "%s: port %q is not a port of the group", at, s.PortLabel)
		for i := range s.Checks {
			c.serviceCheck(at, g, of, s, &s.Checks[i])
		}
	}
}

// label reports whether the group has a port of that name; numbers are ports by themselves.
func (c *check) label(name string) bool {
	return strings.Trim(name, "0123456789") == "" || strings.Contains(name, "${") || c.labels[name]
}

// labels are the names of a group's ports.
func labels(g *api.TaskGroup) map[string]bool {
	names := map[string]bool{}
	add := func(networks []*api.NetworkResource) {
		for _, n := range networks {
			for _, p := range n.DynamicPorts {
				names[p.Label] = true
			}
			for _, p := range n.ReservedPorts {
				names[p.Label] = true
			}
		}
	}
	add(g.Networks)
	for _, t := range g.Tasks {
		if t.Resources != nil {
			add(t.Resources.Networks)
		}
	}
	return names
}
