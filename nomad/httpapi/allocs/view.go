package allocs

import (
	"cmp"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/httpapi/view"
)

// allocView is an allocation with its resources in the older form too: the whole, what the group
// shares and what each task has. Tools that sum up a node read them.
type allocView struct {
	*api.Allocation
	Job                *api.Job
	AllocatedResources *resourcesView
	NetworkStatus      *api.AllocNetworkStatus
	SigningKeyID       string
	Resources          *api.Resources
	SharedResources    *api.Resources
	TaskResources      map[string]*api.Resources
}

func viewAlloc(a *api.Allocation) *allocView {
	v := &allocView{
		Allocation: a, Job: view.Job(a.Job), AllocatedResources: viewResources(a), NetworkStatus: cmp.Or(a.NetworkStatus, &api.AllocNetworkStatus{}),
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

// stubView is a row of the list of allocations. Its events write themselves, which the encoder checks and copies once
// more: in a list that is asked for at each change that is most of the work.
type stubView struct {
	*api.AllocStub
	AllocatedResources *resourcesView `json:",omitempty"`
	TaskStates         map[string]*stateView
}

// stateView is a task's state as it writes itself.
type stateView struct {
	State                              string
	Failed                             bool
	Restarts                           uint64
	LastRestart, StartedAt, FinishedAt *time.Time
	Events                             []*eventView
	Paused                             string
}

// resourcesView is what an allocation was given, with the lives of its tasks: null for those of the main part.
type resourcesView struct {
	*api.AllocatedResources
	TaskLifecycles map[string]*api.TaskLifecycle
}

func viewResources(a *api.Allocation) *resourcesView {
	if a.AllocatedResources == nil {
		return nil
	}
	v := &resourcesView{a.AllocatedResources, map[string]*api.TaskLifecycle{}}
	g := a.Group()
	for name := range a.AllocatedResources.Tasks {
		v.TaskLifecycles[name] = nil
		if g != nil && g.Task(name) != nil {
			v.TaskLifecycles[name] = g.Task(name).Lifecycle
		}
	}
	return v
}

// timeOf is nil for a time that has not come.
func timeOf(t *time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return t
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
		v := &stateView{
			State: s.State, Failed: s.Failed, Restarts: s.Restarts, Paused: s.Paused,
			LastRestart: timeOf(&s.LastRestart), StartedAt: timeOf(&s.StartedAt), FinishedAt: timeOf(&s.FinishedAt),
		}
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
