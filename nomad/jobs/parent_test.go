package jobs_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// What was launched goes on when its template is purged: it is listed, read and stopped like any job, and
// a template that comes again under the name counts it among its own.
func TestInstancesOutliveTheirTemplate(t *testing.T) {
	t.Parallel()
	periodic := func() *api.Job {
		j := web()
		j.ID, j.Type = "par", api.JobTypeBatch
		j.Periodic = &api.PeriodicConfig{Enabled: true, Specs: []string{"0 0 1 1 *"}, TimeZone: "UTC", ProhibitOverlap: true}
		return j
	}
	parameterized := func() *api.Job {
		j := web()
		j.ID, j.Type, j.ParameterizedJob = "par", api.JobTypeBatch, &api.ParameterizedJobConfig{Payload: "optional"}
		return j
	}
	for name, c := range map[string]struct {
		template func() *api.Job
		launch   func(r *fixture) error
	}{
		"periodic": {periodic, func(r *fixture) error {
			_, err := r.PeriodicForce(t.Context(), &api.JobRequest{JobID: "par"})
			return err
		}},
		"parameterized": {parameterized, func(r *fixture) error {
			_, err := r.Dispatch(t.Context(), &api.JobDispatchRequest{JobID: "par", IdempotencyToken: "token"})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t)
			r.register(c.template())
			if err := c.launch(r); err != nil {
				t.Fatal(err)
			}
			child := r.children("par")[0]
			if out := r.stop(&api.JobDeregisterRequest{JobID: "par", Purge: true}); out.EvalID != "" {
				t.Error("a template is evaluated")
			}
			listed := r.children("par")
			if len(listed) != 1 || listed[0].ID != child.ID || listed[0].ParentID != "par" || listed[0].Status != api.JobStatusPending || listed[0].JobSummary == nil {
				t.Fatalf("listed %+v", listed)
			}
			if out, err := r.Summary(t.Context(), &api.JobRequest{JobID: "par"}); err != nil || out.JobSummary != nil {
				t.Errorf("summary of the purged template: %+v %v", out.JobSummary, err)
			}
			if out, err := r.Summary(t.Context(), &api.JobRequest{JobID: child.ID}); err != nil || out.JobSummary == nil || len(out.JobSummary.Summary) != 1 {
				t.Errorf("summary of the instance: %+v %v", out.JobSummary, err)
			}
			refused(t, c.launch(r), fault.NotFound, `job not found: there is no "par" in namespace "default"`)
			r.register(c.template())
			if out, err := r.Summary(t.Context(), &api.JobRequest{JobID: "par"}); err != nil || out.JobSummary.Children.Pending != 1 {
				t.Errorf("summary of the template that came again: %+v %v", out.JobSummary, err)
			}
			r.stop(&api.JobDeregisterRequest{JobID: "par", Purge: true})
			r.stop(&api.JobDeregisterRequest{JobID: child.ID})
			if j := r.get(child.ID); j == nil || !j.Stop || j.Status != api.JobStatusDead {
				t.Errorf("the stopped instance: %+v", j)
			}
			r.stop(&api.JobDeregisterRequest{JobID: child.ID, Purge: true})
			tx := r.store.Read()
			for range tx.Jobs(api.AllNamespaces) {
				t.Error("a job is left")
			}
			for _, id := range []string{"par", child.ID} {
				if tx.JobSummary("default", id) != nil || len(tx.JobVersions("default", id)) > 0 || !tx.LastLaunch("default", id).IsZero() {
					t.Errorf("something of %s is left", id)
				}
			}
		})
	}
}

// children lists the instances of a template.
func (r *fixture) children(id string) []*api.JobStub {
	r.t.Helper()
	out, err := r.List(r.t.Context(), &api.JobListRequest{QueryOptions: api.QueryOptions{Prefix: id + "/"}})
	if err != nil {
		r.t.Fatal(err)
	}
	return out.Jobs
}
