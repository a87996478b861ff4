package rows

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/view"
)

// Allocs is the table of allocations, newest first.
func Allocs(allocs []*api.AllocStub, long bool, now time.Time) string {
	if len(allocs) == 0 {
		return "No allocations placed\n"
	}
	sorted := slices.Clone(allocs)
	slices.SortStableFunc(sorted, func(a, b *api.AllocStub) int { return cmp.Compare(b.CreateIndex, a.CreateIndex) })
	head := []string{"ID", "Node ID", "Task Group", "Version", "Desired", "Status", "Created", "Modified"}
	if long {
		head = []string{"ID", "Eval ID", "Node ID", "Node Name", "Task Group", "Version", "Desired", "Status", "Created", "Modified"}
	}
	table := [][]string{head}
	for _, a := range sorted {
		row := []string{view.ID(a.ID, long)}
		if long {
			row = append(row, a.EvalID, a.NodeID, a.NodeName)
		} else {
			row = append(row, view.ID(a.NodeID, false))
		}
		row = append(row, a.TaskGroup, strconv.FormatUint(a.JobVersion, 10), a.DesiredStatus, a.ClientStatus,
			view.When(a.CreateTime, long, now), view.When(a.ModifyTime, long, now))
		table = append(table, row)
	}
	return view.Table(table...)
}

// Stub makes the row of an allocation that was read whole.
func Stub(a *api.Allocation) *api.AllocStub {
	s := &api.AllocStub{
		ID: a.ID, EvalID: a.EvalID, Name: a.Name, Namespace: a.Namespace, NodeID: a.NodeID, NodeName: a.NodeName,
		JobID: a.JobID, TaskGroup: a.TaskGroup, DesiredStatus: a.DesiredStatus, ClientStatus: a.ClientStatus,
		CreateIndex: a.CreateIndex, ModifyIndex: a.ModifyIndex, CreateTime: a.CreateTime, ModifyTime: a.ModifyTime,
	}
	if a.Job != nil {
		s.JobVersion, s.JobType = a.Job.Version, a.Job.Type
	}
	return s
}
