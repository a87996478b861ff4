package diff_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec"
	"github.com/open-nomad/open-nomad/nomad/jobs/diff"
	"github.com/open-nomad/open-nomad/nomad/jobs/rules"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// recorded is what the compatible system answered for two versions of a job.
type recorded struct {
	Before, After json.RawMessage
	Annotations   *api.PlanAnnotations
	Diff          *api.JobDiff
}

func TestDifferencesHaveTheRecordedShape(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no recordings", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var r recorded
			if err := json.Unmarshal(text, &r); err != nil {
				t.Fatal(err)
			}
			before, after := registered(t, r.Before), registered(t, r.After)
			got := diff.Jobs(before, after)
			if r.Annotations != nil {
				diff.Annotate(got, r.Annotations, forces(before, after))
			}
			withoutQuirks(r.Diff)
			agree(t, "", plain(t, r.Diff), plain(t, got))
		})
	}
}

// forces is the scheduler's rule.
func forces(before, after *api.Job) func(group, task string) bool {
	return func(group, task string) bool { return reconcile.TaskForces(before, after, group, task) }
}

// registered is a job as the servers complete it.
func registered(t *testing.T, text json.RawMessage) *api.Job {
	t.Helper()
	if string(text) == "null" {
		return nil
	}
	j, err := jobspec.DecodeJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	jobspec.Canonicalize(j)
	rules.Complete(j)
	for _, g := range j.TaskGroups {
		g.Constraints = slices.DeleteFunc(g.Constraints, func(k *api.Constraint) bool { return k.LTarget == versionForChecks })
	}
	return j
}

// versionForChecks is in recorded jobs whose services have checks.
const versionForChecks = "${attr.nomad.version}"

// withoutQuirks drops what we leave out on purpose: blocks that were recorded as changed though nothing in
// them is (a server wrote indexes into the scaling policy), the namespace of a service, which is the job's,
// and the version that a node needs for checks: all nodes have it.
func withoutQuirks(d *api.JobDiff) {
	for _, g := range d.TaskGroups {
		g.Objects = slices.DeleteFunc(g.Objects, func(o *api.ObjectDiff) bool {
			o.Fields = slices.DeleteFunc(o.Fields, func(f *api.FieldDiff) bool { return o.Name == "Service" && f.Name == "Namespace" })
			return o.Type == diff.Edited && len(o.Fields)+len(o.Objects) == 0 ||
				o.Name == "Constraint" && o.Fields[0].New == versionForChecks
		})
	}
}

func plain(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// agree compares field by field; blocks of a list by their place.
func agree(t *testing.T, at string, want, got any) {
	t.Helper()
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		if n, ok := w["Name"].(string); ok {
			at += ":" + n
		}
		for k, v := range w {
			agree(t, at+"/"+k, v, g[k])
		}
		for k, v := range g {
			if _, known := w[k]; !known {
				t.Errorf("%s/%s: %v is not in the recording", at, k, v)
			}
		}
	case []any:
		g, _ := got.([]any)
		if names(w) != names(g) {
			t.Errorf("%s: %s, recorded %s", at, names(g), names(w))
			return
		}
		for i := range w {
			agree(t, at, w[i], g[i])
		}
	default:
		if g, list := got.([]any); want != got && !(want == nil && list && len(g) == 0) {
			t.Errorf("%s: %v, recorded %v", at, got, want)
		}
	}
}

// names are the names of what is in a list, or its texts.
func names(list []any) string {
	var all []string
	for _, v := range list {
		if m, ok := v.(map[string]any); ok {
			v = m["Name"]
		}
		all = append(all, fmt.Sprint(v))
	}
	return strings.Join(all, ", ")
}
