package diff

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

// The types of a difference.
const (
	None    = "None"
	Added   = "Added"
	Deleted = "Deleted"
	Edited  = "Edited"
)

// Jobs describes the difference between two versions of a job; either may be nil. Groups and tasks
// are matched by name and all listed. Annotations are for those who know what a plan does.
func Jobs(old, next *api.Job) *api.JobDiff {
	d := &api.JobDiff{}
	switch {
	case next != nil:
		d.ID = next.ID
	case old != nil:
		d.ID = old.ID
	}
	o, n := valueOf(old), valueOf(next)
	d.Fields, d.Objects = block{}.compare(reflect.TypeFor[api.Job](), o, n)
	edited := len(d.Fields)+len(d.Objects) > 0
	for _, p := range pairs(groups(old), groups(next), func(g *api.TaskGroup) string { return g.Name }) {
		g := group(p.old, p.next)
		d.TaskGroups = append(d.TaskGroups, g)
		edited = edited || g.Type != None
	}
	d.Type = kindOf(o.IsValid(), n.IsValid(), edited)
	return d
}

func group(old, next *api.TaskGroup) *api.TaskGroupDiff {
	d := &api.TaskGroupDiff{Name: cmp.Or(next, old).Name}
	o, n := valueOf(old), valueOf(next)
	d.Fields, d.Objects = block{}.compare(reflect.TypeFor[api.TaskGroup](), o, n)
	edited := len(d.Fields)+len(d.Objects) > 0
	for _, p := range pairs(tasks(old), tasks(next), func(t *api.Task) string { return t.Name }) {
		t := task(own(old, p.old), own(next, p.next))
		d.Tasks = append(d.Tasks, t)
		edited = edited || t.Type != None
	}
	d.Type = kindOf(o.IsValid(), n.IsValid(), edited)
	return d
}

// own is a task without the restart policy that is its group's: that is shown there.
func own(g *api.TaskGroup, t *api.Task) *api.Task {
	if t == nil || t.RestartPolicy == nil || g.RestartPolicy == nil || *t.RestartPolicy != *g.RestartPolicy {
		return t
	}
	alone := *t
	alone.RestartPolicy = nil
	return &alone
}

func task(old, next *api.Task) *api.TaskDiff {
	d := &api.TaskDiff{Name: cmp.Or(next, old).Name}
	o, n := valueOf(old), valueOf(next)
	d.Fields, d.Objects = block{}.compare(reflect.TypeFor[api.Task](), o, n)
	d.Type = kindOf(o.IsValid(), n.IsValid(), len(d.Fields)+len(d.Objects) > 0)
	return d
}

func kindOf(old, next, edited bool) string {
	switch {
	case !old && next:
		return Added
	case old && !next:
		return Deleted
	case edited:
		return Edited
	default:
		return None
	}
}

// pair is what has the same name before and after; one of them may be nil.
type pair[T any] struct{ old, next *T }

// pairs matches by name, sorted by name. Of equal names the last one counts.
func pairs[T any](old, next []*T, name func(*T) string) []pair[T] {
	found := map[string]pair[T]{}
	for _, v := range old {
		if v != nil {
			found[name(v)] = pair[T]{old: v}
		}
	}
	for _, v := range next {
		if v != nil {
			found[name(v)] = pair[T]{old: found[name(v)].old, next: v}
		}
	}
	var names []string
	for k := range found {
		names = append(names, k)
	}
	slices.Sort(names)
	out := make([]pair[T], 0, len(names))
	for _, k := range names {
		out = append(out, found[k])
	}
	return out
}

func groups(j *api.Job) []*api.TaskGroup {
	if j == nil {
		return nil
	}
	return j.TaskGroups
}

func tasks(g *api.TaskGroup) []*api.Task {
	if g == nil {
		return nil
	}
	return g.Tasks
}

// valueOf is the struct behind p; the zero Value when there is none.
func valueOf[T any](p *T) reflect.Value {
	if p == nil {
		return reflect.Value{}
	}
	return reflect.ValueOf(p).Elem()
}
