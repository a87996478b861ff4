package reconcile

import (
	"maps"
	"reflect"

	"github.com/open-nomad/open-nomad/api"
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
		old := a.Task(t.Name)
		if old == nil || taskDiffers(old, t) || !equal(metaOf(before, a, old), metaOf(after, b, t)) {
			return true
		}
	}
	return false
}

// equal compares by value; empty and missing maps and lists are the same.
func equal(a, b any) bool {
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	switch va.Kind() {
	case reflect.Map, reflect.Slice:
		if va.Len() == 0 && vb.Len() == 0 {
			return true
		}
	}
	return reflect.DeepEqual(a, b)
}

func groupDiffers(a, b *api.TaskGroup) bool {
	return !equal(a.EphemeralDisk, b.EphemeralDisk) ||
		!equal(a.Networks, b.Networks) ||
		!equal(a.Consul, b.Consul) ||
		!equal(a.Volumes, b.Volumes) ||
		rendersTemplates(a.RestartPolicy) != rendersTemplates(b.RestartPolicy) ||
		!equal(connectOf(a.Services), connectOf(b.Services))
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
		!equal(a.Config, b.Config) ||
		!equal(a.Env, b.Env) ||
		!equal(a.Artifacts, b.Artifacts) ||
		!equal(a.Vault, b.Vault) ||
		!equal(a.Secrets, b.Secrets) ||
		!equal(a.Consul, b.Consul) ||
		!equal(a.Templates, b.Templates) ||
		!equal(a.CSIPluginConfig, b.CSIPluginConfig) ||
		!equal(a.VolumeMounts, b.VolumeMounts) ||
		!equal(a.Identity, b.Identity) ||
		!equal(a.Identities, b.Identities) ||
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
		a.SecretsMB != b.SecretsMB || !equal(a.Devices, b.Devices) || !equal(a.NUMA, b.NUMA) ||
		!equal(a.Networks, b.Networks)
}

// metaOf is the metadata that a task sees: the job's, the group's over it, its own on top.
func metaOf(j *api.Job, g *api.TaskGroup, t *api.Task) map[string]string {
	m := map[string]string{}
	maps.Copy(m, j.Meta)
	maps.Copy(m, g.Meta)
	maps.Copy(m, t.Meta)
	return m
}
