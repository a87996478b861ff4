package deployments_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func TestReads(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.deploy(nil)
	r.place("a1", nil)
	r.place("a2", func(a *api.Allocation) { a.DeploymentID = "" })
	r.put(func(tx *state.Txn) {
		for id, incarnation := range map[string]uint64{"e": r.deployment().JobCreateIndex, "gone": 1} {
			tx.PutDeployment(&api.Deployment{ID: id, Namespace: "default", JobID: "web", JobCreateIndex: incarnation, Status: api.DeploymentStatusFailed})
		}
	})
	ctx := t.Context()
	if out, err := r.List(ctx, &api.QueryOptions{}); err != nil || len(out.Deployments) != 3 {
		t.Errorf("list %+v %v", out.Deployments, err)
	}
	if out, err := r.List(ctx, &api.QueryOptions{Prefix: "go"}); err != nil || len(out.Deployments) != 1 {
		t.Errorf("by prefix %+v %v", out.Deployments, err)
	}
	if out, err := r.Get(ctx, &api.DeploymentRequest{DeploymentID: "d"}); err != nil || out.Deployment.ID != "d" {
		t.Errorf("get %+v %v", out.Deployment, err)
	}
	if out, err := r.Get(ctx, &api.DeploymentRequest{DeploymentID: "x"}); err != nil || out.Deployment != nil {
		t.Errorf("get nothing %+v %v", out.Deployment, err)
	}
	if out, err := r.Allocations(ctx, &api.DeploymentRequest{DeploymentID: "d"}); err != nil || len(out.Allocs) != 1 || out.Allocs[0].ID != "a1" {
		t.Errorf("allocations %+v %v", out.Allocs, err)
	}
	if out, err := r.Allocations(ctx, &api.DeploymentRequest{DeploymentID: "x"}); err != nil || len(out.Allocs) != 0 {
		t.Errorf("allocations of nothing %+v %v", out.Allocs, err)
	}
	if out, err := r.OfJob(ctx, &api.JobRequest{JobID: "web"}); err != nil || len(out.Deployments) != 2 || out.Deployments[0].ID != "e" {
		t.Errorf("of the job %+v %v", out.Deployments, err)
	}
	if out, err := r.OfJob(ctx, &api.JobRequest{JobID: "web", All: true}); err != nil || len(out.Deployments) != 3 {
		t.Errorf("all of the job %+v %v", out.Deployments, err)
	}
	if out, err := r.NewestOfJob(ctx, &api.JobRequest{JobID: "web"}); err != nil || out.Deployment.ID != "e" {
		t.Errorf("newest of the job %+v %v", out.Deployment, err)
	}
	if out, err := r.NewestOfJob(ctx, &api.JobRequest{JobID: "none"}); err != nil || out.Deployment != nil {
		t.Errorf("newest of no job %+v %v", out.Deployment, err)
	}
}

func TestPromotionByHand(t *testing.T) {
	t.Parallel()
	r := open(t)
	ctx := t.Context()
	promote := func(all bool, groups ...string) (*api.DeploymentUpdateResponse, error) {
		return r.Promote(ctx, &api.DeploymentPromoteRequest{DeploymentID: "d", All: all, Groups: groups})
	}
	_, err := promote(true)
	refused(t, err, fault.NotFound, `deployment "d" not found`)
	r.deploy(func(d *api.Deployment, g *api.DeploymentState) {
		g.DesiredCanaries = 1
		d.TaskGroups["other"] = &api.DeploymentState{DesiredCanaries: 1}
		d.TaskGroups["plain"] = &api.DeploymentState{}
		d.StatusDescription = "Deployment is running but requires manual promotion"
	})
	r.place("a1", canary)
	_, err = promote(true)
	refused(t, err, fault.Invalid, `can't promote group "g": 0 of its 1 canaries are healthy`)
	r.found("a1", true)
	_, err = promote(true)
	refused(t, err, fault.Invalid, `can't promote group "other": 0 of its 1 canaries are healthy`)
	_, err = promote(false, "plain")
	refused(t, err, fault.Invalid, `it has no canaries`)
	_, err = promote(false, "nowhere")
	refused(t, err, fault.Invalid, `no such group`)
	_, err = promote(false)
	refused(t, err, fault.Invalid, "either all groups or those named")
	_, err = promote(true, "g")
	refused(t, err, fault.Invalid, "either all groups or those named")
	out, err := promote(false, "g", "g")
	if err != nil {
		t.Fatal(err)
	}
	if out.EvalID == "" || out.EvalCreateIndex != out.Index || out.DeploymentModifyIndex != out.Index {
		t.Errorf("answer %+v", out)
	}
	r.status(api.DeploymentStatusRunning, "Deployment is running but requires manual promotion")
	if d := r.deployment(); !d.TaskGroups["g"].Promoted || d.TaskGroups["other"].Promoted {
		t.Errorf("groups %+v %+v", d.TaskGroups["g"], d.TaskGroups["other"])
	}
	if a := r.state.Read().Alloc("a1"); a.DeploymentStatus.Canary || !*a.DeploymentStatus.Healthy {
		t.Errorf("the promoted canary is %+v", a.DeploymentStatus)
	}
	_, err = promote(false, "g")
	refused(t, err, fault.Invalid, "promoted already")
}

func TestNothingToPromote(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.deploy(nil)
	_, err := r.Promote(t.Context(), &api.DeploymentPromoteRequest{DeploymentID: "d", All: true})
	refused(t, err, fault.Invalid, "no canaries to promote")
}

func TestADeploymentThatIsOverRefusesEverything(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.deploy(func(d *api.Deployment, _ *api.DeploymentState) { d.Status = api.DeploymentStatusSuccessful })
	ctx := t.Context()
	_, err := r.Fail(ctx, &api.DeploymentWriteRequest{DeploymentID: "d"})
	refused(t, err, fault.Invalid, "can't fail terminal deployment")
	_, err = r.Promote(ctx, &api.DeploymentPromoteRequest{DeploymentID: "d", All: true})
	refused(t, err, fault.Invalid, "can't promote terminal deployment")
	_, err = r.Service.Pause(ctx, &api.DeploymentPauseRequest{DeploymentID: "d", Pause: true})
	refused(t, err, fault.Invalid, "can't pause terminal deployment")
	_, err = r.Service.Pause(ctx, &api.DeploymentPauseRequest{DeploymentID: "d"})
	refused(t, err, fault.Invalid, "can't resume terminal deployment")
	_, err = r.AllocHealth(ctx, &api.DeploymentAllocHealthRequest{DeploymentID: "d", HealthyAllocationIDs: []string{"a"}})
	refused(t, err, fault.Invalid, "terminal deployment")
	_, err = r.Unblock(ctx, &api.DeploymentWriteRequest{DeploymentID: "d"})
	refused(t, err, fault.Invalid, "can't unblock terminal deployment")
	_, err = r.Fail(ctx, &api.DeploymentWriteRequest{})
	refused(t, err, fault.Invalid, "missing deployment ID")
	r.evals(0)
}

func TestOnlyBlockedDeploymentsAreUnblocked(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.deploy(nil)
	_, err := r.Unblock(t.Context(), &api.DeploymentWriteRequest{DeploymentID: "d"})
	refused(t, err, fault.Invalid, `can't unblock deployment "d": it is running`)
	r.put(func(tx *state.Txn) {
		d := *tx.Deployment("d")
		d.Status = api.DeploymentStatusBlocked
		tx.PutDeployment(&d)
	})
	if _, err := r.Unblock(t.Context(), &api.DeploymentWriteRequest{DeploymentID: "d"}); err != nil {
		t.Fatal(err)
	}
	r.status(api.DeploymentStatusSuccessful, "Deployment completed successfully")
}

func TestFailingByHand(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		revert   bool
		edit     func(*rig)
		want     string
		reverted bool
	}{
		"without auto_revert": {false, nil, "Deployment marked as failed", false},
		"with auto_revert":    {true, nil, "Deployment marked as failed - rolling back to job version 0", true},
		"nothing stable": {true, func(r *rig) {
			r.put(func(tx *state.Txn) { tx.DeleteJobVersion("default", "web", 0) })
		}, "Deployment marked as failed - no stable job version to auto revert to", false},
		"same specification": {true, func(r *rig) {
			r.put(func(tx *state.Txn) {
				j := *tx.JobVersion("default", "web", 1)
				j.Version, j.Stable = 0, true
				tx.PutJobVersion(&j)
			})
		}, "Deployment marked as failed - not rolling back to stable job version 0 as current job has same specification", false},
		"newer version": {true, func(r *rig) {
			r.put(func(tx *state.Txn) {
				j := *tx.Job("default", "web")
				j.Version = 2
				tx.PutJob(&j)
			})
		}, "Deployment marked as failed - not rolling back, since the job was changed meanwhile", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t)
			r.deploy(func(_ *api.Deployment, g *api.DeploymentState) { g.AutoRevert = c.revert })
			if c.edit != nil {
				c.edit(r)
			}
			out, err := r.Fail(t.Context(), &api.DeploymentWriteRequest{DeploymentID: "d"})
			if err != nil {
				t.Fatal(err)
			}
			r.status(api.DeploymentStatusFailed, c.want)
			if (out.RevertedJobVersion != nil) != c.reverted || c.reverted && *out.RevertedJobVersion != 0 {
				t.Errorf("reverted to %v", out.RevertedJobVersion)
			}
			if out.EvalID == "" || r.state.Read().Eval(out.EvalID) == nil {
				t.Errorf("answer %+v without evaluation", out)
			}
			r.evals(1)
		})
	}
}

func TestAFailedDeploymentOfAPurgedJobHasNoEvaluation(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.deploy(nil)
	r.put(func(tx *state.Txn) { tx.DeleteJob("default", "web") })
	out, err := r.Fail(t.Context(), &api.DeploymentWriteRequest{DeploymentID: "d"})
	if err != nil || out.EvalID != "" {
		t.Errorf("answer %+v, %v", out, err)
	}
	r.status(api.DeploymentStatusFailed, "Deployment marked as failed")
}

func TestHealthByHand(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.deploy(nil)
	r.place("a1", nil)
	r.place("a2", nil)
	r.place("other", func(a *api.Allocation) { a.DeploymentID = "" })
	set := func(healthy, unhealthy []string) (*api.DeploymentUpdateResponse, error) {
		return r.AllocHealth(t.Context(), &api.DeploymentAllocHealthRequest{DeploymentID: "d", HealthyAllocationIDs: healthy, UnhealthyAllocationIDs: unhealthy})
	}
	_, err := set(nil, nil)
	refused(t, err, fault.Invalid, "at least one")
	_, err = set([]string{"a1"}, []string{"a1"})
	refused(t, err, fault.Invalid, "healthy and unhealthy")
	for _, id := range []string{"other", "nothing"} {
		_, err = set([]string{"a1", id}, nil)
		refused(t, err, fault.Invalid, "is not of deployment")
	}
	if r.deployment().TaskGroups["g"].HealthyAllocs != 0 {
		t.Error("a refused request changed something")
	}
	if out, err := set([]string{"a1"}, nil); err != nil || out.EvalID == "" {
		t.Fatalf("answer %+v, %v", out, err)
	}
	if g := r.deployment().TaskGroups["g"]; g.HealthyAllocs != 1 || time.Until(g.RequireProgressBy) > time.Minute {
		t.Errorf("counters %+v", g)
	}
	out, err := set([]string{"a2"}, []string{"a1"})
	if err != nil || out.EvalID == "" {
		t.Fatalf("answer %+v, %v", out, err)
	}
	if g := r.deployment().TaskGroups["g"]; g.HealthyAllocs != 1 || g.UnhealthyAllocs != 1 {
		t.Errorf("counters after a change of mind %+v", g)
	}
	r.status(api.DeploymentStatusFailed, "Failed due to unhealthy allocations")
}

func TestUnhealthyByHandGoesBack(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.deploy(func(_ *api.Deployment, g *api.DeploymentState) { g.AutoRevert = true })
	r.place("a1", nil)
	out, err := r.AllocHealth(t.Context(), &api.DeploymentAllocHealthRequest{DeploymentID: "d", UnhealthyAllocationIDs: []string{"a1"}})
	if err != nil || out.RevertedJobVersion == nil || *out.RevertedJobVersion != 0 {
		t.Fatalf("answer %+v, %v", out, err)
	}
	r.status(api.DeploymentStatusFailed, "Failed due to unhealthy allocations - rolling back to job version 0")
}
