// Package row makes the rows of allocations in lists: one view for every service that lists them.
package row

import "github.com/open-nomad/open-nomad/api"

// Of is the row of an allocation, with its task states and without its resources.
func Of(a *api.Allocation) *api.AllocStub {
	s := &api.AllocStub{}
	Fill(s, a)
	return s
}

// Fill makes s the row of an allocation.
func Fill(s *api.AllocStub, a *api.Allocation) {
	*s = api.AllocStub{
		ID: a.ID, EvalID: a.EvalID, Name: a.Name, Namespace: a.Namespace, NodeID: a.NodeID, NodeName: a.NodeName,
		JobID: a.JobID, TaskGroup: a.TaskGroup,
		DesiredStatus: a.DesiredStatus, DesiredDescription: a.DesiredDescription, DesiredTransition: a.DesiredTransition,
		ClientStatus: a.ClientStatus, ClientDescription: a.ClientDescription, TaskStates: a.TaskStates,
		DeploymentStatus: a.DeploymentStatus, FollowupEvalID: a.FollowupEvalID, NextAllocation: a.NextAllocation,
		RescheduleTracker: a.RescheduleTracker, PreemptedAllocations: a.PreemptedAllocations,
		PreemptedByAllocation: a.PreemptedByAllocation,
		CreateIndex:           a.CreateIndex, ModifyIndex: a.ModifyIndex, CreateTime: a.CreateTime, ModifyTime: a.ModifyTime,
	}
	if a.Job != nil {
		s.JobType, s.JobVersion = a.Job.Type, a.Job.Version
	}
}
