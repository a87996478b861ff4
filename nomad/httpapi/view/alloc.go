package view

import (
	"cmp"

	"github.com/open-nomad/open-nomad/api"
)

// AllocView is an allocation with its resources in the older form too: the whole, what the group
// shares and what each task has. Tools that sum up a node read them.
type AllocView struct {
	*api.Allocation
	Job                *api.Job
	AllocatedResources *GivenResources
	NetworkStatus      *api.AllocNetworkStatus
	SigningKeyID       string
	Resources          *api.Resources
	SharedResources    *api.Resources
	TaskResources      map[string]*api.Resources
}

// Alloc is an allocation as clients read it.
func Alloc(a *api.Allocation) *AllocView {
	v := &AllocView{
		Allocation: a, Job: Job(a.Job), AllocatedResources: Given(a), NetworkStatus: cmp.Or(a.NetworkStatus, &api.AllocNetworkStatus{}),
		Resources: &api.Resources{}, SharedResources: &api.Resources{}, TaskResources: map[string]*api.Resources{},
	}
	given := a.AllocatedResources
	if given == nil {
		return v
	}
	shared := &api.Resources{DiskMB: int(given.Shared.DiskMB), Networks: given.Shared.Networks}
	whole := *shared
	for name, task := range given.Tasks {
		if task == nil {
			continue
		}
		t := &api.Resources{
			CPU: int(task.Cpu.CpuShares), MemoryMB: int(task.Memory.MemoryMB),
			MemoryMaxMB: int(task.Memory.MemoryMaxMB), Networks: task.Networks,
		}
		v.TaskResources[name] = t
		whole.CPU += t.CPU
		whole.MemoryMB += t.MemoryMB
		whole.MemoryMaxMB += max(t.MemoryMB, t.MemoryMaxMB)
	}
	v.Resources, v.SharedResources = &whole, shared
	return v
}

// GivenResources is what an allocation was given, with the lives of its tasks: null for those of the main part.
type GivenResources struct {
	*api.AllocatedResources
	TaskLifecycles map[string]*api.TaskLifecycle
}

// Given is what an allocation was given as clients read it; nil for one without resources.
func Given(a *api.Allocation) *GivenResources {
	if a.AllocatedResources == nil {
		return nil
	}
	v := &GivenResources{a.AllocatedResources, map[string]*api.TaskLifecycle{}}
	g := a.Group()
	for name := range a.AllocatedResources.Tasks {
		v.TaskLifecycles[name] = nil
		if g != nil && g.Task(name) != nil {
			v.TaskLifecycles[name] = g.Task(name).Lifecycle
		}
	}
	return v
}
