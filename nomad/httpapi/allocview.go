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

// stubView is a row of the list of allocations. Its events write themselves, which the encoder checks and copies once
// more: in a list that is asked for at each change that is most of the work.
type stubView struct {
	*api.AllocStub
	TaskStates map[string]*stateView
}

type stateView struct {
	*api.TaskState
	Events []*eventView
}

type eventView api.TaskEvent

var noCause api.TaskEventCause

func viewStates(states map[string]*api.TaskState) map[string]*stateView {
	if states == nil {
		return nil
	}
	out := make(map[string]*stateView, len(states))
	for name, s := range states {
		if s == nil {
			out[name] = nil
			continue
		}
		v := &stateView{TaskState: s}
		if s.Events != nil {
			v.Events = make([]*eventView, len(s.Events))
		}
		for i, e := range s.Events {
			if v.Events[i] = (*eventView)(e); e != nil && e.TaskEventCause == nil {
				whole := eventView(*e)
				whole.TaskEventCause = &noCause
				v.Events[i] = &whole
			}
		}
		out[name] = v
	}
	return out
}
