package diff_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/jobs/diff"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
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
		diff.Annotate(d, plan, forces(web(), next))
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
	diff.Annotate(added, nil, forces(nil, web()))
	if got := added.TaskGroups[0].Tasks[0].Annotations; !slices.Equal(got, []string{"forces create"}) {
		t.Errorf("a new group: %v", got)
	}
	more := web()
	more.TaskGroups[0].Tasks = append(more.TaskGroups[0].Tasks, &api.Task{Name: "new"})
	for _, pair := range [][2]*api.Job{{web(), more}, {more, web()}} {
		d := diff.Jobs(pair[0], pair[1])
		diff.Annotate(d, nil, forces(pair[0], pair[1]))
		for _, task := range d.TaskGroups[0].Tasks {
			if task.Name == "new" && !slices.Equal(task.Annotations, []string{"forces create/destroy update"}) {
				t.Errorf("%s task: %v", task.Type, task.Annotations)
			}
		}
	}
	fewer := web()
	fewer.TaskGroups[0].Count = 1
	d := diff.Jobs(web(), fewer)
	diff.Annotate(d, nil, forces(web(), fewer))
	if got := d.TaskGroups[0].Fields[0].Annotations; !slices.Equal(got, []string{"forces destroy"}) || d.TaskGroups[0].Tasks[0].Annotations != nil {
		t.Errorf("fewer: %v", got)
	}
}

// What a plan says of a task is what the scheduler does, whichever field changed.
func TestAnnotationsAgreeWithTheScheduler(t *testing.T) {
	t.Parallel()
	kind := reflect.TypeFor[api.Task]()
	for i := range kind.NumField() {
		name := kind.Field(i).Name
		if name == "Name" {
			continue
		}
		before, after := web(), web()
		fill(reflect.ValueOf(after.TaskGroups[0].Tasks[0]).Elem().Field(i), 4)
		d := diff.Jobs(before, after)
		diff.Annotate(d, nil, forces(before, after))
		task := d.TaskGroups[0].Tasks[0]
		if task.Type != diff.Edited || diff.Same(before, after) {
			t.Errorf("%s: the change is %s", name, task.Type)
		}
		says := slices.Equal(task.Annotations, []string{"forces create/destroy update"})
		if does := reconcile.Destructive(before, after, "g"); says != does {
			t.Errorf("%s: plan says %v, the scheduler replaces: %v", name, task.Annotations, does)
		}
	}
}

// fill gives a value something that is not there by default.
func fill(v reflect.Value, depth int) {
	switch {
	case v.Kind() == reflect.Pointer && depth > 0:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth-1)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), depth)
			}
		}
	case v.Kind() == reflect.Slice && depth > 0:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth-1)
	case v.Kind() == reflect.Map && depth > 0:
		item := reflect.New(v.Type().Elem()).Elem()
		fill(item, depth-1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), item)
	case v.Kind() == reflect.Interface:
		v.Set(reflect.ValueOf("any"))
	case v.Kind() == reflect.String:
		v.SetString("text")
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(77)
	case v.CanUint():
		v.SetUint(77)
	case v.CanFloat():
		v.SetFloat(0.5)
	}
}
