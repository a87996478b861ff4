package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Statuses lists the state of jobs with their allocations, by the index of the last change.
func (s *Service) Statuses(ctx context.Context, r *api.JobStatusesRequest) (*api.JobStatusesResponse, error) {
	out := &api.JobStatusesResponse{}
	keys := []state.Key{state.TableKey(state.TableJobs), state.TableKey(state.TableAllocs), state.TableKey(state.TableEvals), state.TableKey(state.TableDeployments)}
	wanted := map[api.NamespacedID]bool{}
	for _, id := range r.Jobs {
		wanted[id] = true
	}
	var err error
	out.Jobs, err = page.Read(ctx, s.State, &r.QueryOptions, &out.QueryMeta, keys, func(tx *state.Txn) page.List[*api.Job, *api.JobStatusesJob] {
		visible := access.Visible(ctx) // the rights of the caller may have changed while the call waited
		var rows []*api.Job
		for j := range tx.Jobs(r.Namespace) {
			switch {
			case visible != nil && !visible(j.Namespace):
			case len(wanted) > 0 && !wanted[api.NamespacedID{ID: j.ID, Namespace: j.Namespace}]:
			case len(wanted) == 0 && j.ParentID != "" && !r.IncludeChildren:
			default:
				rows = append(rows, j)
			}
		}
		token := func(j *api.Job) string {
			return fmt.Sprintf("%020d.%s", j.ModifyIndex, state.PathToken(j.Namespace, j.ID))
		}
		return page.List[*api.Job, *api.JobStatusesJob]{
			Walk: page.Sorted(rows, token), Token: token,
			View: func(j *api.Job) any { return withStatus(tx, j) },
			Row:  func(j *api.Job) *api.JobStatusesJob { return statuses(tx, j) },
		}
	})
	return out, err
}

func statuses(tx *state.Txn, j *api.Job) *api.JobStatusesJob {
	out := &api.JobStatusesJob{
		NamespacedID: api.NamespacedID{ID: j.ID, Namespace: j.Namespace}, Name: j.Name, Type: j.Type, NodePool: j.NodePool,
		Datacenters: j.Datacenters, Priority: j.Priority, Version: j.Version, Status: status(tx, j), Stop: j.Stop, SubmitTime: j.SubmitTime,
		ModifyIndex: j.ModifyIndex, ParentID: j.ParentID, Allocs: []*api.JobStatusesAlloc{},
	}
	for _, g := range j.TaskGroups {
		out.GroupCountSum += g.Count
	}
	if j.Periodic != nil || j.ParameterizedJob != nil {
		out.ChildStatuses = []string{}
		for child := range tx.JobsByParent(j.Namespace, j.ID) {
			out.ChildStatuses = append(out.ChildStatuses, status(tx, child))
		}
	}
	var latest *api.Deployment
	for d := range tx.DeploymentsByJob(j.Namespace, j.ID) {
		if latest == nil || d.CreateIndex > latest.CreateIndex {
			latest = d
		}
	}
	out.LatestDeployment = latestDeployment(latest)
	for a := range tx.AllocsByJob(j.Namespace, j.ID) {
		out.Allocs = append(out.Allocs, allocStatus(a))
	}
	slices.SortFunc(out.Allocs, func(a, b *api.JobStatusesAlloc) int { return strings.Compare(a.ID, b.ID) })
	return out
}

func latestDeployment(d *api.Deployment) *api.JobStatusesDeployment {
	if d == nil {
		return nil
	}
	out := &api.JobStatusesDeployment{
		ID: d.ID, JobVersion: d.JobVersion, Status: d.Status, StatusDescription: d.StatusDescription, IsActive: d.Active(),
	}
	canaries := 0
	out.AllAutoPromote = true
	for _, g := range d.TaskGroups {
		if g.DesiredCanaries > 0 {
			canaries++
			out.RequiresPromotion = out.RequiresPromotion || !g.Promoted
			out.AllAutoPromote = out.AllAutoPromote && g.AutoPromote
		}
	}
	out.AllAutoPromote = out.AllAutoPromote && canaries > 0
	return out
}

func allocStatus(a *api.Allocation) *api.JobStatusesAlloc {
	out := &api.JobStatusesAlloc{
		ID: a.ID, Group: a.TaskGroup, ClientStatus: a.ClientStatus, NodeID: a.NodeID, FollowupEvalID: a.FollowupEvalID,
	}
	if a.Job != nil {
		out.JobVersion = a.Job.Version
	}
	if d := a.DeploymentStatus; d != nil {
		out.DeploymentStatus = api.JobStatusesHealth{Canary: d.Canary, Healthy: d.Healthy}
	}
	for _, t := range a.TaskStates {
		out.HasPausedTask = out.HasPausedTask || t.Paused != ""
	}
	return out
}
