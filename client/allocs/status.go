package allocs

import (
	"github.com/open-nomad/open-nomad/api"
)

// status derives what the servers see from the states of the tasks.
func status(states map[string]*api.TaskState, broken error) (status, description string) {
	if broken != nil {
		return api.AllocClientStatusFailed, broken.Error()
	}
	var pending, paused, running, dead, failed int
	for _, s := range states {
		switch {
		case s.State == api.TaskStateRunning:
			running++
		case s.State == api.TaskStateDead && s.Failed:
			failed++
		case s.State == api.TaskStateDead:
			dead++
		case s.Paused == api.PausedBySchedule || s.Paused == api.PausedByUser:
			paused++
		default:
			pending++
		}
	}
	switch {
	case failed > 0:
		return api.AllocClientStatusFailed, "Failed tasks"
	case running > 0:
		return api.AllocClientStatusRunning, "Tasks are running"
	case paused > 0:
		return api.AllocClientStatusPending, "Tasks are paused"
	case pending > 0:
		return api.AllocClientStatusPending, "No tasks have started"
	}
	return api.AllocClientStatusComplete, "All tasks have completed"
}

func allDead(states map[string]*api.TaskState) bool {
	for _, s := range states {
		if s.State != api.TaskStateDead {
			return false
		}
	}
	return true
}

// Status is what the servers see of the allocation: pending, running, complete or failed.
func (a *Alloc) Status() string {
	s, _ := status(a.tasks.States(), a.isBroken())
	return s
}

// Report is the node's half of the allocation, as it is now.
func (a *Alloc) Report() *api.Allocation {
	p := a.Present()
	states := a.tasks.States()
	client, description := status(states, a.isBroken())
	return &api.Allocation{
		ID: a.id, Namespace: p.Namespace, JobID: p.JobID, NodeID: p.NodeID, TaskGroup: p.TaskGroup, EvalID: p.EvalID,
		ClientStatus: client, ClientDescription: description, TaskStates: states,
		DeploymentID: p.DeploymentID, DeploymentStatus: p.DeploymentStatus, NetworkStatus: p.NetworkStatus,
	}
}
