package config

import (
	"cmp"
	"slices"
	"strings"
)

// Allowed checks a task against what the plugin block permits.
func (p *Plugin) Allowed(t *Task) error {
	switch {
	case t.Privileged && !p.AllowPrivileged:
		return invalid(`"privileged" needs "allow_privileged" in the plugin block of the node's agent`)
	case t.Runtime != "" && !slices.Contains(p.AllowRuntimes, t.Runtime):
		return invalid(`"runtime" %q is not in "allow_runtimes" of the node's agent: %s`, t.Runtime, strings.Join(p.AllowRuntimes, ", "))
	case t.PidsLimit > 0 && p.PidsLimit > 0 && t.PidsLimit > p.PidsLimit:
		return invalid(`"pids_limit" is %d; the node's agent allows at most %d`, t.PidsLimit, p.PidsLimit)
	case t.VolumeDriver != "" && !p.Volumes.Enabled:
		return invalid(`"volume_driver" needs "volumes { enabled = true }" in the plugin block of the node's agent`)
	}
	for _, mode := range []struct {
		key, value string
		allowed    []string
	}{
		{"pid_mode", t.PIDMode, p.AllowedModes.PID},
		{"ipc_mode", t.IPCMode, append([]string{"none", "shareable"}, p.AllowedModes.IPC...)},
		{"userns_mode", t.UsernsMode, p.AllowedModes.Userns},
		{"uts_mode", t.UTSMode, p.AllowedModes.UTS},
	} {
		if mode.value != "" && mode.value != "private" && !slices.Contains(mode.allowed, mode.value) {
			return invalid(`%q %q is not among "allowed_modes" of the node's agent`, mode.key, mode.value)
		}
	}
	_, _, err := p.Capabilities(t)
	return err
}

// Capabilities returns what the engine adds to a container's capabilities and drops from them. The engine's own set is
// not used: all are dropped, and those that the task has are added.
func (p *Plugin) Capabilities(t *Task) (add, drop []string, err error) {
	if t.Privileged {
		return nil, nil, nil // the engine gives all
	}
	allowed := func(name string) bool {
		return slices.Contains(p.AllowCaps, "all") || slices.Contains(p.AllowCaps, name)
	}
	var refused []string
	has := map[string]bool{}
	for _, c := range capabilities {
		has[c] = allowed(c)
	}
	for _, c := range t.CapAdd {
		if c = capability(c); allowed(c) {
			has[c] = true
		} else {
			refused = append(refused, c)
		}
	}
	if len(refused) > 0 {
		slices.Sort(refused)
		return nil, nil, invalid(`"cap_add" asks for %s, which "allow_caps" of the node's agent does not have`, strings.Join(slices.Compact(refused), ", "))
	}
	for _, c := range t.CapDrop {
		if c = capability(c); c == "all" {
			clear(has)
			for _, c := range t.CapAdd {
				has[capability(c)] = true
			}
			continue
		}
		if has["all"] {
			drop = append(drop, strings.ToUpper(c))
		}
		delete(has, c)
	}
	for c, yes := range has {
		if yes {
			add = append(add, strings.ToUpper(c))
		}
	}
	slices.Sort(add)
	if has["all"] {
		return []string{"ALL"}, drop, nil
	}
	return add, []string{"ALL"}, nil
}

// EffectivePids is the pids limit of a task; 0 is none.
func (p *Plugin) EffectivePids(t *Task) int64 {
	if t.PidsLimit > 0 {
		return t.PidsLimit
	}
	return p.PidsLimit
}

// EffectiveLogging is the logging driver of the engine for a task.
func (p *Plugin) EffectiveLogging(t *Task) Logging {
	return Logging{Type: cmp.Or(t.Logging.Driver, t.Logging.Type), Config: t.Logging.Config}.or(p.Logging)
}
