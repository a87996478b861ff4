package command_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

func metric() *api.AllocationMetric {
	return &api.AllocationMetric{
		NodesEvaluated: 7, NodesFiltered: 3, NodesExhausted: 4, NodePool: "default", NodesInPool: 9,
		NodesAvailable:     map[string]int{"dc1": 7, "dc2": 0},
		ClassFiltered:      map[string]int{"small": 2},
		ConstraintFiltered: map[string]int{"${attr.kernel.name} = plan9": 1},
		ClassExhausted:     map[string]int{"large": 4}, DimensionExhausted: map[string]int{"memory": 4},
		ScoreMetaData: []*api.NodeScoreMeta{
			{NodeID: "n1111111-0000", Scores: map[string]float64{"binpack": 0.25, "node-affinity": 1}, NormScore: 0.625},
			{NodeID: "n2222222-0000", Scores: map[string]float64{"binpack": 0.75}, NormScore: 0.75},
		},
	}
}

func TestEvalStatusExplainsRefusals(t *testing.T) {
	e := &api.Evaluation{
		ID: "e1111111-0000", Namespace: "default", JobID: "web", Status: "complete", DeploymentID: "d1111111-0000",
		FailedTGAllocs:  map[string]*api.AllocationMetric{"g": metric()},
		PlanAnnotations: &api.PlanAnnotations{DesiredTGUpdates: map[string]*api.DesiredUpdates{"g": {Place: 5, Ignore: 2, Preemptions: 1}}},
	}
	answers := map[string]any{
		"GET /v1/evaluations": []*api.Evaluation{e}, "GET /v1/evaluation/e1111111-0000": e,
		"GET /v1/evaluation/e1111111-0000/allocations": []*api.AllocStub{},
	}
	o := run(t, newAgent(t, answers), "", "eval", "status", "e1")
	o.want(t, 0, `Task Group "g" (failed to place 1 allocation)`, `No nodes are available in datacenter "dc2"`, `Class "small": 2 nodes excluded by filter`,
		`Constraint "${attr.kernel.name} = plan9": 1 node excluded by filter`, "Resources exhausted on 4 nodes", `Class "large" exhausted on 4 nodes`,
		`Dimension "memory" exhausted on 4 nodes`, "Deployment ID      = d1111111")
	if strings.Contains(o.out, "binpack") {
		t.Errorf("scores without -verbose: %s", o.out)
	}
	run(t, newAgent(t, answers), "", "eval", "status", "-verbose", "e1").want(t, 0, "7 nodes evaluated, 3 filtered, 4 exhausted",
		"n2222222-0000  0.75     0              0.75\n", "Plan Annotations\nTask Group  Ignore  Place", "g           2       5      0     0        0         0            0       1")
}

func TestAllocStatusShowsPlacementAndResources(t *testing.T) {
	healthy := true
	a := &api.Allocation{
		ID: "a1111111-0000", Namespace: "default", Name: "web.g[0]", JobID: "web", TaskGroup: "g", ClientStatus: "failed", DesiredStatus: "run",
		Metrics: metric(), DeploymentID: "d1", DeploymentStatus: &api.AllocDeploymentStatus{Healthy: &healthy, Canary: true},
		FollowupEvalID: "f1111111-0000", PreemptedAllocations: []string{"p1111111-0000"},
		RescheduleTracker: &api.RescheduleTracker{Events: []*api.RescheduleEvent{{}, {}}},
		Job:               &api.Job{ID: "web", TaskGroups: []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{{Name: "t"}}}}},
		AllocatedResources: &api.AllocatedResources{Tasks: map[string]*api.AllocatedTaskResources{"t": {
			Cpu: api.AllocatedCpuResources{CpuShares: 4000, ReservedCores: []uint16{2, 3}}, Memory: api.AllocatedMemoryResources{MemoryMB: 64, MemoryMaxMB: 128},
			Devices: []*api.AllocatedDeviceResource{{Vendor: "v", Type: "gpu", Name: "x", DeviceIDs: []string{"id1"}}},
		}}},
		TaskStates: map[string]*api.TaskState{"t": {State: "dead", StartedAt: time.Unix(1, 0)}},
	}
	answers := map[string]any{
		"GET /v1/allocations":              []*api.AllocStub{{ID: a.ID, Namespace: "default"}},
		"GET /v1/allocation/a1111111-0000": a,
	}
	o := run(t, newAgent(t, answers), "", "alloc", "status", "a1")
	o.want(t, 0, "= healthy", "Canary              = true", "Reschedule Attempts = 2", "Follow Up Eval      = f1111111", "Preempted Allocations\n* p1111111\n",
		"Memory Max: 128 MiB", "Reserved Cores: 2,3", "Device: v/gpu/x [id1]")
	if strings.Contains(o.out, "Placement Metrics") {
		t.Errorf("metrics without -verbose: %s", o.out)
	}
	run(t, newAgent(t, answers), "", "alloc", "status", "-verbose", "a1").want(t, 0, "Evaluated Nodes     = 7", "Placement Metrics\n* No nodes", "final score")
}

func TestPlanCountsPerGroupAndLists(t *testing.T) {
	file := jobFile(t, withVariables)
	out := &api.JobPlanResponse{
		JobModifyIndex: 7,
		Diff:           &api.JobDiff{Type: "Edited", ID: "x", TaskGroups: []*api.TaskGroupDiff{{Type: "Edited", Name: "g"}}},
		Annotations: &api.PlanAnnotations{
			DesiredTGUpdates: map[string]*api.DesiredUpdates{"g": {Canary: 1, InPlaceUpdate: 2, Preemptions: 1, Ignore: 3}},
			PreemptedAllocs:  []*api.AllocStub{{ID: "p1111111-0000", JobID: "low", TaskGroup: "lg"}},
		},
		FailedTGAllocs: map[string]*api.AllocationMetric{"g": metric()}, Warnings: "careful",
	}
	a := newAgent(t, map[string]any{"PUT /v1/job/x/plan": out})
	o := run(t, a, "", "job", "plan", "-var", "n=3", file)
	o.want(t, 1, `+/- Task Group: "g" (1 canary, 2 in-place update, 1 preempt, 3 ignore)`, "WARNING: Failed to place all allocations", `Dimension "memory"`,
		"- 1 allocation of other jobs would be preempted.", "p1111111  low     lg", "careful", `nomad job run -check-index 7 -var="n=3" `+file)
	if strings.Contains(o.out, "\x1b[") {
		t.Error("colours without a terminal")
	}
	run(t, a, "", "job", "plan", "-force-color", file).want(t, 1, "\x1b[33m+/- Job: \"x\"\x1b[0m")
	if o := run(t, a, "", "job", "plan", "-diff=false", file); strings.Contains(o.out, "Job: ") {
		t.Errorf("a difference in spite of -diff=false: %s", o.out)
	}
}

func TestBlockedJobsSayWhatTheyWaitFor(t *testing.T) {
	failed := &api.Evaluation{ID: "e1", Namespace: "default", JobID: "web", Status: "complete", BlockedEval: "b1", FailedTGAllocs: map[string]*api.AllocationMetric{"g": metric()}, CreateIndex: 5}
	blocked := &api.Evaluation{ID: "b1", Namespace: "default", JobID: "web", Status: "blocked", PreviousEval: "e1", StatusDescription: "created to place remaining allocations", CreateIndex: 6}
	answers := map[string]any{
		"GET /v1/jobs": jobs("web"), "GET /v1/job/web": &api.Job{ID: "web"}, "GET /v1/job/web/summary": &api.JobSummary{}, "GET /v1/job/web/deployment": nil,
		"GET /v1/job/web/allocations": []*api.AllocStub{}, "GET /v1/job/web/evaluations": []*api.Evaluation{failed, blocked},
		"GET /v1/evaluations": []*api.Evaluation{blocked}, "GET /v1/evaluation/b1": blocked, "GET /v1/evaluation/e1": failed,
		"GET /v1/evaluation/b1/allocations": []*api.AllocStub{},
	}
	run(t, newAgent(t, answers), "", "job", "status", "web").want(t, 0, "Placement Failure\nTask Group \"g\"", `Dimension "memory" exhausted on 4 nodes`)
	run(t, newAgent(t, answers), "", "eval", "status", "b1").want(t, 0, "Failed Placements\nTask Group \"g\"", `Dimension "memory" exhausted on 4 nodes`)
	answers["GET /v1/job/web/evaluations"] = []*api.Evaluation{blocked}
	run(t, newAgent(t, answers), "", "job", "status", "web").want(t, 0, "created to place remaining allocations, see: nomad eval status b1")
	answers["GET /v1/evaluation/e1"] = &refusal{404, "eval not found"}
	run(t, newAgent(t, answers), "", "eval", "status", "b1").want(t, 0, "No allocations placed")
}
