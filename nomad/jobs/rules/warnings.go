package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// Warnings returns what is valid but probably unintended, or "". oversubscribe
// reports whether the cluster lets tasks use more memory than they reserve; more are warnings of others.
func Warnings(j *api.Job, oversubscribe bool, more ...string) string {
	var w []string
	warn := func(is bool, format string, args ...any) {
		if is {
			w = append(w, fmt.Sprintf(format, args...))
		}
	}
	warn(j.Periodic != nil && j.Periodic.Spec != "", "cron is deprecated and may be removed in a future release. Use crons instead")
	promote := 0
	for _, g := range j.TaskGroups {
		if u := g.Update; u != nil {
			warn(u.MaxParallel > 1 && g.Count > 0 && u.MaxParallel > g.Count, "group %q: update max_parallel %d is greater than count %d", g.Name, u.MaxParallel, g.Count)
			if u.AutoPromote {
				promote++
			}
		}
		warn(g.MaxClientDisconnect != 0 || g.StopAfterClientDisconnect != 0 || g.PreventRescheduleOnLost,
			"group %q: max_client_disconnect, stop_after_client_disconnect and prevent_reschedule_on_lost are deprecated; use the disconnect block", g.Name)
		for _, n := range g.Networks {
			warn(n.MBits != 0, "group %q: mbits of a network is deprecated and ignored", g.Name)
			warn(n.Device != "" || n.CIDR != "" || n.IP != "", "group %q: device, cidr and ip of a network are ignored: a port may name a host_network", g.Name)
		}
		delayed := g.ShutdownDelay > 0
		for _, t := range g.Tasks {
			delayed = delayed || t.ShutdownDelay > 0
			warn(len(t.Services) > 0 && t.ShutdownDelay == 0 && g.ShutdownDelay == 0, "task %q in group %q defines services, but has no shutdown_delay set", t.Name, g.Name)
			w = append(w, taskWarnings(g, t, oversubscribe)...)
		}
		warn(len(g.Services) > 0 && !delayed, "group %q defines services, but neither the group nor any of its tasks have shutdown_delay set", g.Name)
	}
	for _, g := range j.TaskGroups {
		for _, s := range services(g) {
			ignored := withoutEffect(s)
			warn(len(ignored) > 0, "service %q: %s: no effect with the provider nomad", s.Name, strings.Join(ignored, ", "))
		}
	}
	warn(usesConsul(j), "consul blocks and namespaces are ignored: services of the provider consul are not supported")
	warn(promote > 0 && promote < len(j.TaskGroups), "auto_promote is set for some groups only: all groups with canaries are promoted together")
	warn(j.VaultNamespace != "", "vault_namespace is ignored: no task gets anything of vault")
	return render(append(w, more...))
}

// withoutEffect names what a service of the provider nomad has in its block and what is not part of its registration.
func withoutEffect(s *api.Service) (names []string) {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"enable_tag_override", s.EnableTagOverride},
		{"meta", len(s.Meta) > 0},
		{"canary_meta", len(s.CanaryMeta) > 0},
		{"tagged_addresses", len(s.TaggedAddresses) > 0},
		{"on_update without checks", s.OnUpdate != "" && s.OnUpdate != "require_healthy" && len(s.Checks) == 0},
		{"weights", s.Weights != nil},
		{"cluster", s.Cluster != "" && s.Cluster != "default"},
		{"kind", s.Kind != ""},
	} {
		if f.set {
			names = append(names, f.name)
		}
	}
	return names
}

func usesConsul(j *api.Job) bool {
	return j.ConsulNamespace != "" || slices.ContainsFunc(j.TaskGroups, func(g *api.TaskGroup) bool {
		return g.Consul != nil || slices.ContainsFunc(g.Tasks, func(t *api.Task) bool { return t.Consul != nil })
	})
}

func taskWarnings(g *api.TaskGroup, t *api.Task, oversubscribe bool) []string {
	var w []string
	if r := t.Resources; r != nil {
		if r.MemoryMaxMB != 0 && !oversubscribe {
			w = append(w, fmt.Sprintf("memory oversubscription is not enabled; task %q of group %q: memory_max is ignored", t.Name, g.Name))
		}
		if r.DiskMB != 0 {
			w = append(w, fmt.Sprintf("task %q of group %q: disk in resources is ignored; use the group's ephemeral_disk", t.Name, g.Name))
		}
		if len(r.Networks) > 0 || r.IOPS != 0 {
			w = append(w, fmt.Sprintf("task %q of group %q: network and iops in resources are deprecated; use the group's network block", t.Name, g.Name))
		}
	}
	w = append(w, identityWarnings(g, t)...)
	for _, m := range t.VolumeMounts {
		if m.SELinuxLabel != "" && t.Driver != "docker" {
			w = append(w, fmt.Sprintf("task %q of group %q: selinux_label of volume_mount %q is ignored: only tasks of the driver docker have labels", t.Name, g.Name, m.Volume))
		}
	}
	if t.Kind != "" {
		w = append(w, fmt.Sprintf("task %q of group %q: kind %q is ignored: it is for service meshes", t.Name, g.Name, t.Kind))
	}
	for i, m := range t.Templates {
		if m.VaultGrace != 0 {
			w = append(w, fmt.Sprintf("task %q of group %q: vault_grace of template %d is ignored", t.Name, g.Name, i+1))
		}
	}
	return w
}

// render writes a list as users know it.
func render(w []string) string {
	switch len(w) {
	case 0:
		return ""
	case 1:
		return "1 warning:\n\n* " + w[0]
	}
	return fmt.Sprintf("%d warnings:\n\n* %s", len(w), strings.Join(w, "\n* "))
}
