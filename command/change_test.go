package command_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

func changed() map[string]any {
	done := &api.Evaluation{ID: "e1", Status: "complete", JobID: "web"}
	return map[string]any{
		"GET /v1/jobs":                      jobs("web"),
		"GET /v1/evaluation/e1":             done,
		"GET /v1/evaluation/e1/allocations": []*api.AllocStub{},
		"GET /v1/job/web/versions": &api.JobVersionsResponse{
			Versions: []*api.Job{{ID: "web", Version: 1, VersionTag: &api.JobVersionTag{Name: "golden", Description: "keep"}}, {ID: "web", Version: 0, Stable: true}},
			Diffs:    []*api.JobDiff{{Type: "Edited", ID: "web", Fields: []*api.FieldDiff{{Type: "Edited", Name: "Priority", Old: "50", New: "60"}}}},
		},
		"PUT /v1/job/web/revert":              &api.JobRegisterResponse{EvalID: "e1"},
		"PUT /v1/job/web/scale":               &api.JobRegisterResponse{EvalID: "e1"},
		"PUT /v1/job/web/periodic/force":      &api.PeriodicForceResponse{EvalID: "e1"},
		"PUT /v1/job/web/versions/golden/tag": &api.JobTagResponse{Name: "golden"}, "DELETE /v1/job/web/versions/golden/tag": &api.JobTagResponse{},
		"PUT /v1/job/web/dispatch": &api.JobDispatchResponse{DispatchedJobID: "web/dispatch-1", EvalID: "e1"},
	}
}

func (a *agent) sent(t *testing.T, key string, into any) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := json.Unmarshal([]byte(a.bodies[key]), into); err != nil {
		t.Fatalf("%s: %v in %q", key, err, a.bodies[key])
	}
}

func TestRevertByNumberAndTag(t *testing.T) {
	for text, version := range map[string]uint64{"0": 0, "golden": 1} {
		a := newAgent(t, changed())
		run(t, a, "", "job", "revert", "web", text).want(t, 0, `Evaluation "e1" finished`)
		var req api.JobRevertRequest
		if a.sent(t, "PUT /v1/job/web/revert", &req); req.JobVersion != version || req.JobID != "web" {
			t.Errorf("%s: %+v", text, req)
		}
	}
	run(t, newAgent(t, changed()), "", "job", "revert", "web", "silver").want(t, 1, `"silver" is not a version`)
	run(t, newAgent(t, changed()), "", "job", "revert", "-detach", "web", "0").want(t, 0, "Job revert successful\nEvaluation ID: e1")
}

func TestHistoryComparesWithWhatIsNamed(t *testing.T) {
	a := newAgent(t, changed())
	run(t, a, "", "job", "history", "-p", "-diff-tag", "golden", "web").want(t, 0,
		"Tag Name        = golden", "Tag Description = keep", `+/- Priority: "50" => "60"`, "Stable      = true")
	if !a.wasAsked("diff_tag=golden&diffs=true") {
		t.Errorf("asked %v", a.asked)
	}
	if o := run(t, newAgent(t, changed()), "", "job", "history", "web"); strings.Contains(o.out, "Priority") {
		t.Errorf("a difference without -p: %s", o.out)
	}
	run(t, a, "", "job", "history", "-diff-tag", "x", "-diff-version", "1", "web").want(t, 1, "cannot be combined")
	run(t, a, "", "job", "history", "-p", "-force-color", "web").want(t, 0, "\x1b[33m+/- Priority: \"50\" => \"60\"\x1b[0m\n")
}

func TestTags(t *testing.T) {
	a := newAgent(t, changed())
	run(t, a, "", "job", "tag", "apply", "-name", "golden", "-version", "0", "-description", "keep", "web").want(t, 0, `Tag "golden" names version 0`)
	var req api.JobTagRequest
	if a.sent(t, "PUT /v1/job/web/versions/golden/tag", &req); req.Latest || req.Version != 0 || req.Description != "keep" {
		t.Errorf("sent %+v", req)
	}
	run(t, a, "", "job", "tag", "apply", "-name", "golden", "web").want(t, 0, "the newest version")
	if a.sent(t, "PUT /v1/job/web/versions/golden/tag", &req); !req.Latest {
		t.Errorf("sent %+v", req)
	}
	run(t, a, "", "job", "tag", "unset", "-name", "golden", "web").want(t, 0, "removed")
	run(t, a, "", "job", "tag", "apply", "web").want(t, 1, "-name is required")
	run(t, a, "", "job", "tag", "apply", "-name", "x", "-version", "one", "web").want(t, 1, `-version "one"`)
}

func TestScale(t *testing.T) {
	answers := changed()
	two, eval := int64(2), "e9"
	status := &api.JobScaleStatus{JobID: "web", TaskGroups: map[string]*api.TaskGroupScaleStatus{"g": {Desired: 2, Events: []*api.ScalingEvent{
		{Count: &two, PreviousCount: 3, Message: "less", EvalID: &eval, Time: 2}, {PreviousCount: 2, Error: true, Message: "no metrics", Time: 1},
	}}}}
	answers["GET /v1/job/web/scale"] = status
	a := newAgent(t, answers)
	run(t, a, "", "job", "scale", "-check-index", "7", "web", "5").want(t, 0, "finished")
	var req api.JobScaleRequest
	if a.sent(t, "PUT /v1/job/web/scale", &req); *req.Count != 5 || req.Target["Group"] != "g" || req.JobModifyIndex != 7 {
		t.Errorf("sent %+v", req)
	}
	run(t, a, "", "job", "scale", "-detach", "web", "h", "0").want(t, 0, "Job scaling successful")
	if a.sent(t, "PUT /v1/job/web/scale", &req); *req.Count != 0 || req.Target["Group"] != "h" {
		t.Errorf("sent %+v", req)
	}
	run(t, a, "", "job", "scale", "web", "many").want(t, 1, `count "many"`)
	o := run(t, a, "", "job", "scaling-events", "-verbose", "web")
	o.want(t, 0, "g           2      3          false  less        e9", "N/A    2          true   no metrics  <none>")
	status.TaskGroups["h"] = &api.TaskGroupScaleStatus{}
	run(t, a, "", "job", "scale", "web", "5").want(t, 1, "several groups, specify one: g, h")
}

func TestDispatch(t *testing.T) {
	answers := changed()
	a := newAgent(t, answers)
	file := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(file, []byte("from file"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, a, "from stdin", "job", "dispatch", "-meta", "who=me", "-meta", "x=1,2", "-id-prefix-template", "pfx", "-idempotency-token", "abc", "-priority", "70", "web", "-").want(t, 0,
		"Dispatched Job ID = web/dispatch-1", "Evaluation ID     = e1", "finished")
	var req api.JobDispatchRequest
	a.sent(t, "PUT /v1/job/web/dispatch", &req)
	if string(req.Payload) != "from stdin" || req.Meta["who"] != "me" || req.Meta["x"] != "1,2" || req.IDPrefixTemplate != "pfx" || req.Priority != 70 || !a.wasAsked("idempotency_token=abc") {
		t.Errorf("sent %+v, asked %v", req, a.asked)
	}
	if o := run(t, a, "", "job", "dispatch", "-detach", "web", file); o.code != 0 || strings.Contains(o.out, "Monitoring") {
		t.Errorf("detached: %+v", o)
	}
	if a.sent(t, "PUT /v1/job/web/dispatch", &req); string(req.Payload) != "from file" {
		t.Errorf("sent %q", req.Payload)
	}
	run(t, a, "", "job", "dispatch", "web", file+".none").want(t, 1, "input.none")
	run(t, a, "", "job", "dispatch", "-meta", "novalue", "web").want(t, 1, "not key=value")
	run(t, a, "", "job", "dispatch", "-wait", "-detach", "web").want(t, 1, "cannot be combined")
}

func TestDispatchWaitsForTheEnd(t *testing.T) {
	for _, x := range []struct {
		failed, code int
		text         string
	}{{0, 0, "has ended: 1 complete, 0 failed"}, {1, 1, "1 allocations of job"}} {
		answers := changed()
		answers["GET /v1/job/web%2Fdispatch-1"] = []any{&api.Job{ID: "web/dispatch-1", Status: "running"}, &api.Job{ID: "web/dispatch-1", Status: "dead"}}
		answers["GET /v1/job/web%2Fdispatch-1/summary"] = &api.JobSummary{Summary: map[string]api.TaskGroupSummary{"g": {Complete: 1, Failed: x.failed}}}
		run(t, newAgent(t, answers), "", "job", "dispatch", "-wait", "web").want(t, x.code, x.text)
	}
}

func TestPeriodicForce(t *testing.T) {
	run(t, newAgent(t, changed()), "", "job", "periodic", "force", "-detach", "web").want(t, 0, "Force periodic successful\nEvaluation ID: e1")
	answers := changed()
	answers["PUT /v1/job/web/periodic/force"] = &refusal{400, "can't force launch non-periodic job"}
	run(t, newAgent(t, answers), "", "job", "periodic", "force", "web").want(t, 1, "can't force launch")
}

func TestStartRegistersTheStoppedJob(t *testing.T) {
	answers := changed()
	answers["GET /v1/job/web"] = &api.Job{ID: "web", Namespace: "default", Stop: true, JobModifyIndex: 9, Version: 3}
	answers["GET /v1/job/web/submission"] = &api.JobSubmission{Source: "job", Format: "hcl2"}
	answers["PUT /v1/jobs"] = &api.JobRegisterResponse{EvalID: "e1"}
	a := newAgent(t, answers)
	run(t, a, "", "start", "web").want(t, 0, "finished")
	var req api.JobRegisterRequest
	if a.sent(t, "PUT /v1/jobs", &req); req.Job.Stop || !req.EnforceIndex || req.JobModifyIndex != 9 || req.Submission.Source != "job" {
		t.Errorf("sent %+v", req)
	}
	answers["GET /v1/job/web"] = &api.Job{ID: "web", Status: "running"}
	run(t, newAgent(t, answers), "", "job", "start", "web").want(t, 1, "is not stopped")
}

func TestParentsShowTheirChildren(t *testing.T) {
	child := &api.JobStub{ID: "web/periodic-1", ParentID: "web", Status: "dead", SubmitTime: 1}
	answers := map[string]any{
		"GET /v1/jobs":            []any{jobs("web"), []*api.JobStub{child, {ID: "web/other", ParentID: ""}}},
		"GET /v1/job/web":         &api.Job{ID: "web", Type: "batch", Status: "running", Periodic: &api.PeriodicConfig{Enabled: true, Specs: []string{"0 0 1 1 *", "*/5 * * * *"}, TimeZone: "UTC"}},
		"GET /v1/job/web/summary": &api.JobSummary{Children: &api.JobChildrenSummary{Dead: 1}},
	}
	o := run(t, newAgent(t, answers), "", "job", "status", "web")
	o.want(t, 0, "Next Periodic Launch = ", "(in ", "Children Job Summary\nPending  Running  Dead\n0        0        1", "Previously Launched Jobs", "web/periodic-1  dead")
	if strings.Contains(o.out, "Allocations") || strings.Contains(o.out, "web/other") {
		t.Errorf("too much: %s", o.out)
	}
	answers["GET /v1/jobs"] = []any{jobs("web"), []*api.JobStub{}}
	answers["GET /v1/job/web"] = &api.Job{ID: "web", ParameterizedJob: &api.ParameterizedJobConfig{Payload: "optional", MetaRequired: []string{"who", "why"}}}
	run(t, newAgent(t, answers), "", "job", "status", "web").want(t, 0, "Parameterized Job\nPayload           = optional", "Required Metadata = who, why", "No instances of this job")
}

// task is an allocation with a task that was restarted some times.
func task(id, state string, restarts uint64) *api.Allocation {
	return &api.Allocation{
		ID: id, ClientStatus: "running", NextAllocation: "n" + id,
		TaskStates: map[string]*api.TaskState{"t": {State: state, Restarts: restarts}, "init": {State: "dead"}},
	}
}

func restartable() map[string]any {
	stub := func(id, name string) *api.AllocStub {
		return &api.AllocStub{ID: id, Name: name, TaskGroup: "g", DesiredStatus: "run", ClientStatus: "running", TaskStates: map[string]*api.TaskState{"t": {State: "running"}}}
	}
	answers := changed()
	gone := stub("a9", "web.g[9]")
	gone.ClientStatus = "complete"
	answers["GET /v1/job/web/allocations"] = []*api.AllocStub{stub("a2", "web.g[1]"), stub("a1", "web.g[0]"), stub("a3", "web.g[2]"), gone}
	for _, id := range []string{"a1", "a2", "a3"} {
		answers["PUT /v1/client/allocation/"+id+"/restart"] = ""
		answers["PUT /v1/allocation/"+id+"/stop"] = &api.AllocStopResponse{EvalID: "e1"}
		answers["GET /v1/allocation/"+id] = []any{
			task(id, "running", 0), task(id, "running", 0), task(id, "pending", 1), task(id, "running", 1),
		}
		answers["GET /v1/allocation/n"+id] = []any{&api.Allocation{ID: "n" + id, ClientStatus: "pending"}, &api.Allocation{ID: "n" + id, ClientStatus: "running"}}
	}
	return answers
}

func TestRestartInBatches(t *testing.T) {
	a := newAgent(t, restartable())
	run(t, a, "", "job", "restart", "-batch-size", "67%", "web").want(t, 0, "Restarting 3 allocations of job \"web\", 2 at a time", "Batch 2 of 2", "Job restart finished")
	for _, id := range []string{"a1", "a2", "a3"} {
		if !a.wasAsked("PUT /v1/client/allocation/" + id + "/restart") {
			t.Errorf("%s was not restarted: %v", id, a.asked)
		}
	}
	if reads := strings.Count(strings.Join(a.asked, "\n"), "GET /v1/allocation/a3"); reads != 4 {
		t.Errorf("looked %d times at a3, which was started again at the fourth look", reads)
	}
	if a.wasAsked("a9") {
		t.Error("an ended allocation was restarted")
	}
	b := newAgent(t, restartable())
	run(t, b, "", "job", "restart", "-reschedule", "-batch-size", "3", "web").want(t, 0, "Job restart finished")
	if !b.wasAsked("PUT /v1/allocation/a3/stop") || !b.wasAsked("GET /v1/allocation/na3") {
		t.Errorf("asked %v", b.asked)
	}
}

func TestRestartAfterErrors(t *testing.T) {
	failing := func() *agent {
		answers := restartable()
		answers["PUT /v1/client/allocation/a1/restart"] = &refusal{500, "no such task"}
		return newAgent(t, answers)
	}
	a := failing()
	run(t, a, "", "job", "restart", "-on-error", "fail", "web").want(t, 1, "no such task", "stopped after an error")
	if a.wasAsked("a2/restart") {
		t.Error("the next batch was begun")
	}
	run(t, failing(), "n\n", "job", "restart", "web").want(t, 1, "all the same?", "canceled")
	run(t, failing(), "y\n", "job", "restart", "web").want(t, 1, "errors in 1 of 3 batches")
	run(t, failing(), "", "job", "restart", "-yes", "web").want(t, 1, "errors in 1 of 3 batches")
	run(t, newAgent(t, restartable()), "n\n", "job", "restart", "-batch-wait", "ask", "web").want(t, 1, "next batch?", "canceled")
	for _, args := range []string{"-batch-size 0", "-batch-size 101%", "-batch-wait soon", "-on-error ignore", "-reschedule -task t", "-no-shutdown-delay"} {
		run(t, newAgent(t, restartable()), "", append(append([]string{"job", "restart"}, strings.Fields(args)...), "web")...).want(t, 1)
	}
}

func TestEvalDeleteNeedsAPausedBroker(t *testing.T) {
	config := &api.SchedulerConfiguration{}
	answers := map[string]any{
		"GET /v1/operator/scheduler/configuration": &api.SchedulerConfigResponse{SchedulerConfig: config},
		"GET /v1/evaluations":                      []*api.Evaluation{{ID: "e1111111", Namespace: "default"}},
		"GET /v1/evaluations/count":                &api.EvalCountResponse{Count: 12},
		"DELETE /v1/evaluations":                   &api.EvalDeleteResponse{Count: 12},
	}
	run(t, newAgent(t, answers), "", "eval", "delete", "-yes", "e1").want(t, 1, "not paused")
	config.PauseEvalBroker = true
	a := newAgent(t, answers)
	run(t, a, "y\n", "eval", "delete", "-filter", `Status == "pending"`).want(t, 0, "delete 12 evaluations?", "Deleted 12 evaluations")
	var req api.EvalDeleteRequest
	if a.sent(t, "DELETE /v1/evaluations", &req); req.Filter != `Status == "pending"` || len(req.EvalIDs) > 0 {
		t.Errorf("sent %+v", req)
	}
	a = newAgent(t, answers)
	run(t, a, "n\n", "eval", "delete", "e1").want(t, 0, "Canceling")
	run(t, a, "", "eval", "delete").want(t, 1, "specify an evaluation")
	if a.wasAsked("DELETE") {
		t.Error("deleted without consent")
	}
}

func TestScalingPolicies(t *testing.T) {
	p := &api.ScalingPolicy{ID: "p1111111-0000", Enabled: true, Type: "horizontal", Min: 1, Max: 5, Target: map[string]string{"Job": "web", "Namespace": "default", "Group": "g"}, Policy: map[string]any{"cooldown": "1m"}}
	answers := map[string]any{"GET /v1/scaling/policies": []*api.ScalingPolicy{p}, "GET /v1/scaling/policy/p1111111-0000": p}
	a := newAgent(t, answers)
	run(t, a, "", "scaling", "policy", "list", "-job", "web", "-type", "horizontal").want(t, 0, "p1111111  true     horizontal  Namespace:default,Job:web,Group:g")
	if !a.wasAsked("job=web&type=horizontal") {
		t.Errorf("asked %v", a.asked)
	}
	run(t, a, "", "scaling", "policy", "info", "p1").want(t, 0, "Max     = 5", `"cooldown": "1m"`)
	run(t, newAgent(t, map[string]any{"GET /v1/scaling/policies": []*api.ScalingPolicy{}}), "", "scaling", "policy", "info", "x").want(t, 1, "No scaling policy")
}
