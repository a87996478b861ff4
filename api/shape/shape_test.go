package shape_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/shape"
)

type tree struct {
	Name     string
	Children []*tree
	By       map[string]*tree
	One      *tree
	Groups   [][]*tree
	Small    []byte `msg:",omitempty,limit=3"`
	Words    []string
	Any      any
	Left     []*tree `msg:"-"`
}

func TestFlawsAreNamed(t *testing.T) {
	t.Parallel()
	many := strings.Split(strings.Repeat("x,", shape.EntriesMax), ",")
	for want, v := range map[string]any{
		"":                                     &tree{Any: []any{nil}, One: &tree{}, Children: []*tree{{}}, Left: []*tree{nil}, Words: many[1:]},
		"tree.Children[1] is null":             &tree{Children: []*tree{{}, nil}},
		`tree.By["x"] is null`:                 &tree{By: map[string]*tree{"x": nil}},
		"tree.Groups[0][0] is null":            &tree{Groups: [][]*tree{{nil}}},
		`tree.One.By["a"].Children[0] is null`: &tree{One: &tree{By: map[string]*tree{"a": {Children: []*tree{nil}}}}},
		"tree.Small has 4 entries; at most 3 are possible":             &tree{Small: make([]byte, 4)},
		"tree.Words has 1000001 entries; at most 1000000 are possible": &tree{Words: many},
		"JobRegisterRequest.Job.TaskGroups[0].Tasks[0].ScalingPolicies[0] is null": &api.JobRegisterRequest{Job: &api.Job{
			TaskGroups: []*api.TaskGroup{{Tasks: []*api.Task{{ScalingPolicies: []*api.ScalingPolicy{nil}}}}},
		}},
	} {
		err := shape.Check(v)
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want || !errors.Is(err, fault.Invalid)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := shape.Check(nil); err != nil {
		t.Error(err)
	}
}

func BenchmarkJob(b *testing.B) {
	j := &api.Job{ID: "j", Datacenters: []string{"dc1"}}
	for range 10 {
		j.TaskGroups = append(j.TaskGroups, &api.TaskGroup{Tasks: []*api.Task{{Env: map[string]string{"a": "b"}}, {}}})
	}
	for b.Loop() {
		if err := shape.Check(j); err != nil {
			b.Fatal(err)
		}
	}
}
