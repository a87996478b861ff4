package command_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

func rollout(status string, change func(*api.Deployment)) *api.Deployment {
	d := &api.Deployment{
		ID: "d1111111-0000", Namespace: "default", JobID: "web", JobVersion: 2, Status: status, StatusDescription: "about " + status, CreateIndex: 5,
		TaskGroups: map[string]*api.DeploymentState{"g": {DesiredTotal: 3, PlacedAllocs: 1, RequireProgressBy: time.Unix(1_800_000_000, 0)}},
	}
	if change != nil {
		change(d)
	}
	return d
}

func steered(status ...any) map[string]any {
	return map[string]any{
		"GET /v1/deployments":                          []*api.Deployment{rollout("running", nil), rollout("successful", func(d *api.Deployment) { d.ID = "e2222222-0000"; d.CreateIndex = 9 })},
		"GET /v1/deployment/d1111111-0000":             status,
		"GET /v1/deployment/allocations/d1111111-0000": []*api.AllocStub{{ID: "a1111111-0000", TaskGroup: "g", ClientStatus: "running"}},
		"PUT /v1/deployment/promote/d1111111-0000":     &api.DeploymentUpdateResponse{EvalID: "e1"},
		"PUT /v1/deployment/pause/d1111111-0000":       &api.DeploymentUpdateResponse{},
		"PUT /v1/deployment/fail/d1111111-0000":        &api.DeploymentUpdateResponse{EvalID: "e1"},
		"PUT /v1/deployment/unblock/d1111111-0000":     &api.DeploymentUpdateResponse{EvalID: "e1"},
		"GET /v1/evaluation/e1":                        &api.Evaluation{ID: "e1", Status: "complete", JobID: "web", DeploymentID: "d1111111-0000"},
		"GET /v1/evaluation/e1/allocations":            []*api.AllocStub{},
		"GET /v1/jobs":                                 jobs("web"),
		"GET /v1/job/web/deployment":                   rollout("running", nil),
		"GET /v1/deployment/e2222222-0000":             rollout("successful", nil),
		"GET /v1/deployment/allocations/e2222222-0000": []*api.AllocStub{},
	}
}

func TestDeploymentsAreListedNewestFirst(t *testing.T) {
	a := newAgent(t, steered(rollout("running", nil)))
	o := run(t, a, "", "deployment", "list")
	o.want(t, 0, "ID        Job ID  Job Version  Status      Description\ne2222222", "d1111111  web")
	run(t, newAgent(t, map[string]any{"GET /v1/deployments": []*api.Deployment{}}), "", "deployment", "list").want(t, 0, "No deployments found")
}

func TestDeploymentStatusShowsCanariesOnlyWhereThereAreSome(t *testing.T) {
	plain := run(t, newAgent(t, steered(rollout("running", nil))), "", "deployment", "status", "d1")
	plain.want(t, 0, "Task Group  Desired  Placed  Healthy  Unhealthy  Progress Deadline")
	canaries := rollout("running", func(d *api.Deployment) {
		d.TaskGroups["g"].DesiredCanaries, d.TaskGroups["g"].AutoRevert = 1, true
	})
	run(t, newAgent(t, steered(canaries)), "", "deployment", "status", "-verbose", "d1").want(t, 0,
		"Task Group  Auto Revert  Promoted  Desired  Canaries  Placed", "g           true         false     3        1         1", "Allocations", "a1111111-0000")
	run(t, newAgent(t, steered(canaries)), "", "deployment", "status", "-json", "d1").want(t, 0, `"AutoRevert": true`)
	run(t, newAgent(t, steered(canaries)), "", "deployment", "status", "-monitor", "-wait", "often", "d1").want(t, 1, `-wait "often"`)
}

func TestDeploymentMonitorEndsWithTheDeployment(t *testing.T) {
	healthy := rollout("running", func(d *api.Deployment) { d.TaskGroups["g"].HealthyAllocs = 3 })
	run(t, newAgent(t, steered(rollout("running", nil), healthy, rollout("successful", nil))), "", "deployment", "status", "-monitor", "d1").want(t, 0,
		"Monitoring deployment", "= running", "= successful")
	run(t, newAgent(t, steered(rollout("running", nil), rollout("failed", nil))), "", "deployment", "status", "-monitor", "d1").want(t, 1, `is failed: about failed`)
	waiting := rollout("running", func(d *api.Deployment) {
		d.TaskGroups["g"].DesiredCanaries, d.TaskGroups["g"].HealthyAllocs = 1, 1
	})
	run(t, newAgent(t, steered(waiting, rollout("successful", nil))), "", "deployment", "status", "-monitor", "d1").want(t, 0, "nomad deployment promote d1111111")
}

func TestFailedDeploymentsThatGoBackAreFollowed(t *testing.T) {
	answers := steered(rollout("failed", func(d *api.Deployment) { d.TaskGroups["g"].AutoRevert = true }))
	back := rollout("running", func(d *api.Deployment) { d.ID, d.JobVersion, d.CreateIndex = "e2222222-0000", 3, 9 })
	answers["GET /v1/job/web/deployment"] = back
	o := run(t, newAgent(t, answers), "", "deployment", "status", "-monitor", "d1")
	o.want(t, 1, "reverted: deployed as version 3", `Monitoring deployment "e2222222"`, "is failed")
}

func TestDeploymentsAreSteered(t *testing.T) {
	for _, x := range []struct {
		args  string
		after any
		texts []string
		sent  string
	}{
		{"deployment promote d1", rollout("successful", nil), []string{`Deployment "d1111111" promoted`, "= successful"}, `"All":true`},
		{"deployment promote -group g -group h -detach d1", nil, []string{"Evaluation ID: e1"}, `"All":false,"Groups":["g","h"]`},
		{"deployment pause d1", nil, []string{"paused"}, `"Pause":true`},
		{"deployment resume d1", nil, []string{"resumed"}, `"Pause":false`},
		{"deployment fail d1", rollout("failed", nil), []string{"failed", `Evaluation "e1" finished`}, ""},
		{"deployment unblock -detach d1", nil, []string{"unblocked"}, `"DeploymentID":"d1111111-0000"`},
		{"job promote -detach web", nil, []string{`of job "web" promoted`}, `"All":true`},
	} {
		a := newAgent(t, steered(x.after))
		run(t, a, "", strings.Fields(x.args)...).want(t, 0, x.texts...)
		sent := ""
		for k, b := range a.bodies {
			if strings.HasPrefix(k, "PUT") {
				sent += b
			}
		}
		if !strings.Contains(sent, x.sent) {
			t.Errorf("%s sent %s, want %s", x.args, sent, x.sent)
		}
	}
	answers := steered()
	answers["PUT /v1/deployment/fail/d1111111-0000"] = &refusal{400, "can't fail terminal deployment"}
	run(t, newAgent(t, answers), "", "deployment", "fail", "d1").want(t, 1, "Error failing deployment", "can't fail terminal deployment")
	answers["GET /v1/job/web/deployment"] = nil
	run(t, newAgent(t, answers), "", "job", "promote", "web").want(t, 1, "no deployment to promote")
}
