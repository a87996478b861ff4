package transport

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// hollow returns an encoded registration of a job with so many empty tasks.
func hollow(tasks int) []byte {
	var b bytes.Buffer
	w := msgp.NewWriter(&b)
	for _, name := range []string{"Job", "TaskGroups"} {
		_ = w.WriteMapHeader(1)
		_ = w.WriteString(name)
	}
	_ = w.WriteArrayHeader(1)
	_ = w.WriteMapHeader(1)
	_ = w.WriteString("Tasks")
	_ = w.WriteArrayHeader(uint32(tasks))
	for range tasks {
		_ = w.WriteMapHeader(0)
	}
	_ = w.Flush()
	return b.Bytes()
}

// A decoded request of a MiB could take 430 MiB.
func TestRequestsOfEmptyStructsAreRejectedBeforeTheyAreDecoded(t *testing.T) {
	t.Parallel()
	for tasks, refused := range map[int]bool{1: false, 50_000: false, 100_000: true, 1_000_000: true} {
		var r api.JobRegisterRequest
		err := DecodeRequest(t.Context(), hollow(tasks), &r)
		if refused != errors.Is(err, fault.TooLarge) || refused && r.Job != nil {
			t.Errorf("%d tasks: %v", tasks, err)
		}
	}
}

// Real requests have far fewer structs than the limit.
func TestRealRequestsAreNotTooSparse(t *testing.T) {
	t.Parallel()
	id := func(n int) string { return fmt.Sprintf("%08d-0000-0000-0000-000000000000", n) }
	plan := &api.Plan{EvalID: id(1), NodeAllocation: map[string][]*api.Allocation{}}
	for i := range 2000 {
		plan.NodeAllocation[id(i)] = []*api.Allocation{{
			ID: id(2 * i), NodeID: id(i), TaskGroup: "g", Name: fmt.Sprintf("j.g[%d]", i), EvalID: id(1),
			AllocatedResources: &api.AllocatedResources{
				Tasks:  map[string]*api.AllocatedTaskResources{"t": {Cpu: api.AllocatedCpuResources{CpuShares: 1}, Memory: api.AllocatedMemoryResources{MemoryMB: 1}}},
				Shared: api.AllocatedSharedResources{DiskMB: 1},
			},
			Metrics: &api.AllocationMetric{NodesEvaluated: 1, ScoreMetaData: []*api.NodeScoreMeta{{NodeID: id(i), Scores: map[string]float64{"binpack": 0.5}, NormScore: 0.5}}},
		}}
	}
	j := &api.Job{ID: "j", TaskGroups: []*api.TaskGroup{{Name: "g"}}}
	for i := range 20_000 {
		j.TaskGroups[0].Tasks = append(j.TaskGroups[0].Tasks, &api.Task{
			Name: fmt.Sprint(i), Driver: "d", Resources: &api.Resources{CPU: 1, Networks: []*api.NetworkResource{{DynamicPorts: []api.Port{{Label: "p"}}}}},
			Constraints: []*api.Constraint{{LTarget: "a", Operand: "=", RTarget: "b"}}, Env: map[string]string{"a": "b"}, Config: map[string]any{"a": []any{map[string]any{"b": 1}}},
		})
	}
	report := &api.AllocUpdateRequest{}
	for i := range 2000 {
		report.Allocs = append(report.Allocs, &api.Allocation{ID: id(i), TaskStates: map[string]*api.TaskState{"t": {Events: []*api.TaskEvent{{Type: "x"}, {Type: "y"}}}}})
	}
	for what, v := range map[string]any{"plan": &api.PlanSubmitRequest{Plan: plan}, "job": &api.JobRegisterRequest{Job: j}, "report": report} {
		b, err := encode(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := rejectSparse(b); err != nil || len(b)/countStructs(b) < 2*structBytes {
			t.Errorf("%s: %d bytes for each of %d structs: %v", what, len(b)/countStructs(b), countStructs(b), err)
		}
	}
}
