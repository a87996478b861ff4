package reconcile

import (
	"cmp"
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/jobs/diff"
)

// Destructive reports whether an allocation of the old job must be replaced to be one of the new.
// Everything that is not compared here is updated in place.
func Destructive(before, after *api.Job, group string) bool {
	if before == nil {
		return true
	}
	a, b := before.Group(group), after.Group(group)
	if a == nil || b == nil || len(a.Tasks) != len(b.Tasks) {
		return true
	}
	if groupDiffers(a, b) {
		return true
	}
	for _, t := range b.Tasks {
		if taskForces(before, after, a, b, t.Name) {
			return true
		}
	}
	return false
}

// TaskForces reports whether what changed of a task, or its being there, is enough for [Destructive].
func TaskForces(before, after *api.Job, group, task string) bool {
	if before == nil {
		return true
	}
	a, b := before.Group(group), after.Group(group)
	return a == nil || b == nil || taskForces(before, after, a, b, task)
}

func taskForces(before, after *api.Job, a, b *api.TaskGroup, task string) bool {
	old, now := a.Task(task), b.Task(task)
	return old == nil || now == nil || taskDiffers(old, now) || !diff.Equal(metaOf(before, a, old), metaOf(after, b, now))
}

func groupDiffers(a, b *api.TaskGroup) bool {
	return !diff.Equal(a.EphemeralDisk, b.EphemeralDisk) ||
		!diff.Equal(networksOf(a.Networks), networksOf(b.Networks)) ||
		consulOf(a.Consul) != consulOf(b.Consul) ||
		!diff.Equal(a.Volumes, b.Volumes) ||
		rendersTemplates(a.RestartPolicy) != rendersTemplates(b.RestartPolicy) ||
		!diff.Equal(connectOf(a.Services), connectOf(b.Services))
}

func rendersTemplates(r *api.RestartPolicy) bool { return r != nil && r.RenderTemplates }

// connectOf keeps of the services what their sidecars depend on.
func connectOf(services []*api.Service) map[string]any {
	m := map[string]any{}
	for _, s := range services {
		if s.Connect != nil {
			m[s.Name] = []any{s.Connect, s.PortLabel, s.Cluster}
		}
	}
	return m
}

func taskDiffers(a, b *api.Task) bool {
	return a.Driver != b.Driver || a.User != b.User ||
		!diff.Equal(a.Config, b.Config) ||
		!diff.Equal(a.Env, b.Env) ||
		!diff.Equal(a.Artifacts, b.Artifacts) ||
		!diff.Equal(a.Vault, b.Vault) ||
		!diff.Equal(a.Secrets, b.Secrets) ||
		consulOf(a.Consul) != consulOf(b.Consul) ||
		!diff.Equal(a.Templates, b.Templates) ||
		!diff.Equal(a.CSIPluginConfig, b.CSIPluginConfig) ||
		!diff.Equal(a.VolumeMounts, b.VolumeMounts) ||
		!diff.Equal(identityOf(a.Identity), identityOf(b.Identity)) ||
		!diff.Equal(a.Identities, b.Identities) ||
		rendersTemplates(a.RestartPolicy) != rendersTemplates(b.RestartPolicy) ||
		logsDisabled(a) != logsDisabled(b) ||
		resourcesDiffer(a.Resources, b.Resources)
}

func logsDisabled(t *api.Task) bool { return t.LogConfig != nil && t.LogConfig.Disabled }

func resourcesDiffer(a, b *api.Resources) bool {
	if a == nil || b == nil {
		return a != b
	}
	return a.CPU != b.CPU || a.Cores != b.Cores || a.MemoryMB != b.MemoryMB || a.MemoryMaxMB != b.MemoryMaxMB ||
		a.SecretsMB != b.SecretsMB || !diff.Equal(a.Devices, b.Devices) || !diff.Equal(a.NUMA, b.NUMA) ||
		!diff.Equal(networksOf(a.Networks), networksOf(b.Networks))
}

// consulOf is what a consul block names; a block that names nothing names the defaults.
func consulOf(c *api.Consul) api.Consul {
	if c == nil {
		c = &api.Consul{}
	}
	named := *c
	named.Cluster = cmp.Or(named.Cluster, "default")
	return named
}

// networksOf keeps of networks what an allocation has of them: whether a port may be another's is asked when it is
// placed.
func networksOf(all []*api.NetworkResource) []*api.NetworkResource {
	kept := slices.Clone(all)
	for i, n := range all {
		if n == nil {
			continue
		}
		plain := *n
		plain.ReservedPorts, plain.DynamicPorts = slices.Clone(n.ReservedPorts), slices.Clone(n.DynamicPorts)
		for _, ports := range [][]api.Port{plain.ReservedPorts, plain.DynamicPorts} {
			for p := range ports {
				ports[p].IgnoreCollision = false
			}
		}
		kept[i] = &plain
	}
	return kept
}

// identityOf is the default identity of a task, which it has whether it says so or not.
func identityOf(id *api.WorkloadIdentity) api.WorkloadIdentity {
	if id == nil {
		id = &api.WorkloadIdentity{}
	}
	own := *id
	own.Name, own.Audience = "", nil // the same for all
	return own
}

// metaOf is the metadata that a task sees: the job's, the group's over it, its own on top.
func metaOf(j *api.Job, g *api.TaskGroup, t *api.Task) map[string]string {
	m := map[string]string{}
	maps.Copy(m, j.Meta)
	maps.Copy(m, g.Meta)
	maps.Copy(m, t.Meta)
	return m
}
