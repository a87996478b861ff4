package jobs_test

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func (r *fixture) statuses(req *api.JobStatusesRequest) []*api.JobStatusesJob {
	r.t.Helper()
	req.Namespace = api.AllNamespaces
	out, err := r.Statuses(r.t.Context(), req)
	if err != nil {
		r.t.Fatal(err)
	}
	return out.Jobs
}

func TestStatusesOfJobs(t *testing.T) {
	f := open(t)
	job := &api.Job{ID: "web", Namespace: "default", Version: 3, TaskGroups: []*api.TaskGroup{{Name: "g", Count: 2}, {Name: "h", Count: 1}}}
	f.put(func(tx *state.Txn) {
		tx.PutJob(job)
		tx.PutAlloc(&api.Allocation{
			ID: "a1", Namespace: "default", JobID: "web", Job: job, TaskGroup: "g", NodeID: "n1", ClientStatus: api.AllocClientStatusRunning,
			DeploymentStatus: &api.AllocDeploymentStatus{Canary: true}, TaskStates: map[string]*api.TaskState{"t": {Paused: api.PausedByUser}},
		})
		tx.PutDeployment(&api.Deployment{ID: "d1", Namespace: "default", JobID: "web", Status: api.DeploymentStatusRunning, TaskGroups: map[string]*api.DeploymentState{
			"g": {DesiredCanaries: 1, AutoPromote: true},
		}})
	})
	f.put(func(tx *state.Txn) {
		tx.PutJob(&api.Job{ID: "cron", Namespace: "default", Periodic: &api.PeriodicConfig{}})
		tx.PutJob(&api.Job{ID: "cron/periodic-1", ParentID: "cron", Namespace: "default", Stop: true})
	})
	all := f.statuses(&api.JobStatusesRequest{})
	if len(all) != 2 || all[0].ID != "web" || all[1].ID != "cron" {
		t.Fatalf("got %d jobs, want web and cron by their last changes", len(all))
	}
	if j := all[0]; j.GroupCountSum != 3 || j.ChildStatuses != nil || len(j.Allocs) != 1 {
		t.Errorf("web is %+v", j)
	} else if a := j.Allocs[0]; a.ID != "a1" || a.JobVersion != 3 || !a.HasPausedTask || !a.DeploymentStatus.Canary || a.DeploymentStatus.Healthy != nil {
		t.Errorf("its allocation is %+v", a)
	} else if d := j.LatestDeployment; d == nil || !d.IsActive || !d.RequiresPromotion || !d.AllAutoPromote {
		t.Errorf("its deployment is %+v", d)
	}
	if j := all[1]; !slices.Equal(j.ChildStatuses, []string{api.JobStatusDead}) || j.LatestDeployment != nil {
		t.Errorf("cron is %+v", j)
	}
	if n := len(f.statuses(&api.JobStatusesRequest{IncludeChildren: true})); n != 3 {
		t.Errorf("with its instances there are %d jobs", n)
	}
	one := f.statuses(&api.JobStatusesRequest{Jobs: []api.NamespacedID{{ID: "cron/periodic-1", Namespace: "default"}}})
	if len(one) != 1 || one[0].ParentID != "cron" {
		t.Errorf("the jobs of a request are %+v", one)
	}
}
