package httpapi

import "github.com/open-nomad/open-nomad/api"

// allocView is an allocation with its resources in the older form too: the whole, what the group
// shares and what each task has. Tools that sum up a node read them.
type allocView struct {
	*api.Allocation
	Resources       *api.Resources
	SharedResources *api.Resources
	TaskResources   map[string]*api.Resources
}

func viewAlloc(a *api.Allocation) *allocView {
	v := &allocView{Allocation: a, Resources: &api.Resources{}, SharedResources: &api.Resources{}, TaskResources: map[string]*api.Resources{}}
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
