package diff_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/jobs/diff"
)

func TestAnnotationsSayWhatAChangeForces(t *testing.T) {
	t.Parallel()
	plan := &api.PlanAnnotations{DesiredTGUpdates: map[string]*api.DesiredUpdates{"g": {Ignore: 2, Place: 1}}}
	for want, c := range map[string]struct {
		count int
		edit  func(*api.Task)
	}{
		"forces create/destroy update": {3, func(t *api.Task) { t.Env = map[string]string{"A": "2"} }},
		"forces in-place update":       {10, func(t *api.Task) { t.KillTimeout = time.Minute }},
	} {
		next := web()
		next.TaskGroups[0].Count = c.count
		c.edit(next.TaskGroups[0].Tasks[0])
		d := diff.Jobs(web(), next)
		diff.Annotate(d, plan)
		g := d.TaskGroups[0]
		if got := g.Tasks[0].Annotations; !slices.Equal(got, []string{want}) {
			t.Errorf("task %v, want %q", got, want)
		}
		if got := g.Fields[0].Annotations; !slices.Equal(got, []string{"forces create"}) {
			t.Errorf("count %v", got)
		}
		if !maps.Equal(g.Updates, map[string]uint64{"ignore": 2, "create": 1}) {
			t.Errorf("updates %v", g.Updates)
		}
	}
	added := diff.Jobs(nil, web())
	diff.Annotate(added, nil)
	if got := added.TaskGroups[0].Tasks[0].Annotations; !slices.Equal(got, []string{"forces create"}) {
		t.Errorf("a new task: %v", got)
	}
	fewer := web()
	fewer.TaskGroups[0].Count = 1
	d := diff.Jobs(web(), fewer)
	diff.Annotate(d, nil)
	if got := d.TaskGroups[0].Fields[0].Annotations; !slices.Equal(got, []string{"forces destroy"}) || d.TaskGroups[0].Tasks[0].Annotations != nil {
		t.Errorf("fewer: %v", got)
	}
}
