package exec

import (
	"slices"
	"strings"
)

// capabilities are those of Linux; the number of each is its place.
var capabilities = []string{
	"chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap", "linux_immutable",
	"net_bind_service", "net_broadcast", "net_admin", "net_raw", "ipc_lock", "ipc_owner", "sys_module", "sys_rawio", "sys_chroot",
	"sys_ptrace", "sys_pacct", "sys_admin", "sys_boot", "sys_nice", "sys_resource", "sys_time", "sys_tty_config", "mknod", "lease",
	"audit_write", "audit_control", "setfcap", "mac_override", "mac_admin", "syslog", "wake_alarm", "block_suspend", "audit_read",
	"perfmon", "bpf", "checkpoint_restore",
}

// defaultCapabilities are what tasks have without cap_add, and what cap_add may ask for unless allow_caps lists others.
var defaultCapabilities = []string{
	"audit_write", "chown", "dac_override", "fowner", "fsetid", "kill", "mknod", "net_bind_service", "setfcap", "setgid",
	"setpcap", "setuid", "sys_chroot",
}

// set is a set of capabilities, one bit each.
type set int64

// all is every capability that this package knows.
var all = set(1)<<len(capabilities) - 1

// setOf reads a list of names, with and without the prefix "cap_" and in any case.
func setOf(driver, key string, names []string) (set, error) {
	var out set
	for _, name := range names {
		short := strings.TrimPrefix(strings.ToLower(name), "cap_")
		n := slices.Index(capabilities, short)
		switch {
		case short == "all":
			out |= all
		case n < 0:
			return 0, invalid(driver, "%q has %q, which is no capability of Linux", key, name)
		default:
			out |= 1 << n
		}
	}
	return out, nil
}

// names lists a set, sorted.
func (s set) names() []string {
	var out []string
	for i, name := range capabilities {
		if s&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// capabilitiesOf returns what a task can have, and which of these it has when it does not run as root.
func (c *Config) capabilitiesOf(t *taskConfig) (bounding, ambient set, err error) {
	allowed, err := setOf(c.name(), "allow_caps", c.AllowCaps)
	if err != nil {
		return 0, 0, err
	}
	usual, _ := setOf(c.name(), "", defaultCapabilities)
	added, err := setOf(c.name(), "cap_add", t.CapAdd)
	if err != nil {
		return 0, 0, err
	}
	dropped, err := setOf(c.name(), "cap_drop", t.CapDrop)
	if err != nil {
		return 0, 0, err
	}
	if slices.ContainsFunc(t.CapAdd, isAll) {
		added &= allowed
	}
	if refused := added &^ allowed; refused != 0 {
		return 0, 0, invalid(c.name(), `"cap_add" asks for %s, which "allow_caps" of the node's agent does not have`, strings.Join(refused.names(), ", "))
	}
	if slices.ContainsFunc(t.CapDrop, isAll) { // then a task has what it asks for
		return added, added, nil
	}
	return (usual&allowed | added) &^ dropped, added &^ dropped, nil
}

func isAll(name string) bool { return strings.TrimPrefix(strings.ToLower(name), "cap_") == "all" }
