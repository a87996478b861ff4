package command_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

func TestAllocLogs(t *testing.T) {
	alloc := &api.Allocation{ID: "a1111111", Namespace: "default", TaskGroup: "g", Job: &api.Job{TaskGroups: []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{{Name: "t"}}}}}}
	two := &api.Allocation{ID: "a1111111", Namespace: "default", TaskGroup: "g", Job: &api.Job{TaskGroups: []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{{Name: "t"}, {Name: "u"}}}}}}
	answers := func(a *api.Allocation) map[string]any {
		return map[string]any{
			"GET /v1/allocations": []*api.AllocStub{{ID: "a1111111", Namespace: "default"}}, "GET /v1/allocation/a1111111": a,
			"GET /v1/client/fs/logs/a1111111": "one\ntwo\nthree\n",
		}
	}
	if o := run(t, newAgent(t, answers(alloc)), "", "alloc", "logs", "a11"); o.out != "one\ntwo\nthree\n" {
		t.Errorf("got %q, %q", o.out, o.err)
	}
	if o := run(t, newAgent(t, answers(alloc)), "", "logs", "-tail", "-n", "2", "a11"); o.out != "two\nthree\n" {
		t.Errorf("got %q, %q", o.out, o.err)
	}
	a := newAgent(t, answers(alloc))
	run(t, a, "", "alloc", "logs", "-stderr", "a11", "t").want(t, 0)
	if !strings.Contains(a.asked[2], "type=stderr") {
		t.Errorf("asked %v", a.asked)
	}
	run(t, newAgent(t, answers(two)), "", "alloc", "logs", "a11").want(t, 1, "specify the task")
	run(t, newAgent(t, answers(two)), "", "alloc", "logs", "a11", "zz").want(t, 1, `"zz"`)
}

func TestAllocChecks(t *testing.T) {
	alloc := &api.Allocation{ID: "a1111111", Namespace: "default", ClientStatus: "running", TaskGroup: "g", Job: &api.Job{TaskGroups: []*api.TaskGroup{{
		Name: "g", Tasks: []*api.Task{{Name: "t"}}, Services: []*api.Service{{Name: "web", Checks: []api.ServiceCheck{{Name: "up"}}}},
	}}}}
	a := newAgent(t, map[string]any{
		"GET /v1/allocations": []*api.AllocStub{{ID: "a1111111", Namespace: "default"}}, "GET /v1/allocation/a1111111": alloc,
		"GET /v1/client/allocation/a1111111/checks": map[string]*api.AllocCheckStatus{
			"1": {ID: "1", Service: "web", Check: "up", Mode: "healthiness", Status: "failure", StatusCode: 503, Output: "the status of the response is 503"},
		},
		"GET /v1/client/allocation/a1111111/stats": &refusal{503, "node is not connected"},
	})
	for _, verb := range []string{"checks", "status"} {
		run(t, a, "", "alloc", verb, "a1").want(t, 0, "web", "up", "healthiness", "failure", "503")
	}
}

func TestAllocPause(t *testing.T) {
	a := newAgent(t, map[string]any{
		"GET /v1/allocations": []*api.AllocStub{{ID: "a1111111", Namespace: "default"}}, "GET /v1/allocation/a1111111": &api.Allocation{ID: "a1111111", Namespace: "default"},
		"GET /v1/client/allocation/a1111111/pause": api.AllocGetPauseResponse{ScheduleState: "sched_pause"},
		"PUT /v1/client/allocation/a1111111/pause": struct{}{},
	})
	run(t, a, "", "alloc", "pause", "-status", "a1", "t").want(t, 0, "sched_pause")
	for args, state := range map[string]string{"": "pause", "-state=run": "run", "-state=scheduled": "scheduled"} {
		run(t, a, "", append(append([]string{"alloc", "pause"}, strings.Fields(args)...), "a1", "t")...).want(t, 0)
		if sent := a.bodies["PUT /v1/client/allocation/a1111111/pause"]; !strings.Contains(sent, `"Task":"t","ScheduleState":"`+state+`"`) {
			t.Errorf("sent %s, want %s", sent, state)
		}
	}
	paused := newAgent(t, map[string]any{
		"GET /v1/allocations": []*api.AllocStub{{ID: "a1111111", Namespace: "default"}},
		"GET /v1/allocation/a1111111": &api.Allocation{
			ID: "a1111111", Namespace: "default", TaskStates: map[string]*api.TaskState{"t": {State: "pending", Paused: api.PausedBySchedule}},
		},
	})
	run(t, paused, "", "alloc", "status", "a1").want(t, 0, `Task "t" is "pending" (sched_pause)`)
	refused := newAgent(t, map[string]any{
		"GET /v1/allocations": []*api.AllocStub{{ID: "a1111111", Namespace: "default"}}, "GET /v1/allocation/a1111111": &api.Allocation{ID: "a1111111", Namespace: "default"},
		"PUT /v1/client/allocation/a1111111/pause": &refusal{400, "Not a valid task schedule state"},
	})
	run(t, refused, "", "alloc", "pause", "-state=sleep", "a1", "t").want(t, 1, "Error changing the schedule state", "Not a valid task schedule state")
}

func TestAllocStatus(t *testing.T) {
	alloc := &api.Allocation{
		ID: "a1111111", Namespace: "default", Name: "web.g[2]", NodeID: "n1111111", ClientStatus: "running", TaskGroup: "g",
		Job: &api.Job{Version: 3, TaskGroups: []*api.TaskGroup{{
			Name:    "g",
			Volumes: map[string]*api.VolumeRequest{"data": {Name: "data", Type: "csi", Source: "v", PerAlloc: true}},
			Tasks:   []*api.Task{{Name: "t", VolumeMounts: []*api.VolumeMount{{Volume: "data", Destination: "d"}}}},
		}}},
		AllocatedResources: &api.AllocatedResources{Tasks: map[string]*api.AllocatedTaskResources{"t": {Cpu: api.AllocatedCpuResources{CpuShares: 50}, Memory: api.AllocatedMemoryResources{MemoryMB: 32}}}},
		TaskStates:         map[string]*api.TaskState{"t": {State: "running", Events: []*api.TaskEvent{{Type: "Started", Time: 1, DisplayMessage: "Task started by client"}}}},
	}
	a := newAgent(t, map[string]any{
		"GET /v1/allocations": []*api.AllocStub{{ID: "a1111111", Namespace: "default"}}, "GET /v1/allocation/a1111111": alloc,
		"GET /v1/client/allocation/a1111111/stats": &refusal{503, "node is not connected"},
	})
	run(t, a, "", "alloc", "status", "a1").want(t, 0, "Job Version         = 3", `Task "t" is "running"`, "50 MHz", "32 MiB", "v[2]", "Started", "Task started by client", "Could not read the resource usage")
}
