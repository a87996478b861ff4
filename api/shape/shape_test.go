package shape_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

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

func TestInputIsSayableInJSON(t *testing.T) {
	t.Parallel()
	type noted struct {
		Score  float64
		At     time.Time
		Until  *time.Time
		Scores map[string]float32
		Rows   []noted
	}
	nested := func(n int) (v any) {
		for range n {
			v = []any{v}
		}
		return v
	}
	config := func(v any) any {
		return &api.Job{TaskGroups: []*api.TaskGroup{{Tasks: []*api.Task{{Config: map[string]any{"x": v}}}}}}
	}
	for want, v := range map[string]any{
		"":                                      &noted{Score: 1, At: time.Unix(0, 0), Scores: map[string]float32{"a": -1}, Rows: []noted{{}}},
		"noted.Score is NaN":                    noted{Score: math.NaN()},
		`noted.Scores["a"] is +`:                &noted{Scores: map[string]float32{"a": float32(math.Inf(1))}},
		"noted.Rows[1].At is in the year 33658": &noted{Rows: []noted{{}, {At: time.Unix(1_000_000_000_000, 0)}}},
		"noted.Until is in the year -29719":     &noted{Until: new(time.Unix(-1_000_000_000_000, 0))},
		`Job.TaskGroups[0].Tasks[0].Config["x"] is nested deeper than 128 levels`: config(nested(200)),
		`Config["x"]["a"][1] is -Inf`:         config(map[string]any{"a": []any{1.5, math.Inf(-1)}}),
		`Config["x"] is a complex128`:         config(complex(1, 1)),
		`Config["x"][0] is in the year 33658`: config([]any{time.Unix(1_000_000_000_000, 0)}),
	} {
		err := shape.Input(v)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 200 || !errors.Is(err, fault.Invalid)) {
			t.Errorf("got %v, want %q", err, want)
		}
		if err := shape.Check(v); err != nil {
			t.Errorf("an entry of the log is refused: %v", err)
		}
	}
	for _, good := range []any{nested(100), map[string]any{"a": []byte{0xff}, "b": nil, "c": []map[string]any{{"d": 1e300}}}, []string{"a"}} {
		if err := shape.Input(config(good)); err != nil {
			t.Error(err)
		}
	}
	if err := shape.Input(&tree{Children: []*tree{{}, nil}}); err == nil {
		t.Error("a null is taken")
	}
}

func BenchmarkJob(b *testing.B) {
	j := &api.Job{ID: "j", Datacenters: []string{"dc1"}}
	for range 10 {
		j.TaskGroups = append(j.TaskGroups, &api.TaskGroup{Tasks: []*api.Task{{Env: map[string]string{"a": "b"}}, {}}})
	}
	for b.Loop() {
		if err := shape.Input(j); err != nil {
			b.Fatal(err)
		}
	}
}
