package diff

import (
	"reflect"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// hidden are fields that no difference shows: names by which things are matched, what is shown
// elsewhere, what the servers write, and what a newer field stands for.
var hidden = map[reflect.Type][]string{
	reflect.TypeFor[api.Job](): {
		"ID", "TaskGroups", "Status", "StatusDescription", "Stable", "Version", "VersionTag",
		"SubmitTime", "CreateIndex", "ModifyIndex", "JobModifyIndex", "NomadTokenID", "Update",
	},
	reflect.TypeFor[api.TaskGroup]():      {"Name", "Tasks"},
	reflect.TypeFor[api.Task]():           {"Name"},
	reflect.TypeFor[api.ScalingPolicy]():  {"ID", "Namespace", "Target", "CreateIndex", "ModifyIndex", "Type"},
	reflect.TypeFor[api.UpdateStrategy](): {"Stagger"},
	reflect.TypeFor[api.LogConfig]():      {"Enabled"},
}

// unset are fields whose zero means that nobody set them: it is not shown.
var unset = map[reflect.Type][]string{
	reflect.TypeFor[api.TaskGroup]():        {"ShutdownDelay", "MaxRunDuration", "StopAfterClientDisconnect", "MaxClientDisconnect"},
	reflect.TypeFor[api.NetworkResource]():  {"Device", "CIDR", "IP", "MBits"},
	reflect.TypeFor[api.Port]():             {"Value", "IgnoreCollision"},
	reflect.TypeFor[api.Template]():         {"Uid", "Gid"},
	reflect.TypeFor[api.ServiceCheck]():     {"Advertise"},
	reflect.TypeFor[api.WorkloadIdentity](): {"ExtraClaims"},
}

// absent are fields whose zero is shown as nil: they were not set, and zero would mean something.
var absent = map[reflect.Type]string{reflect.TypeFor[api.DisconnectStrategy](): "StopOnClientAfter"}

// textOf is a field as it is shown.
func textOf(t reflect.Type, name string, v reflect.Value, quiet bool) string {
	if absent[t] == name && v.IsValid() && v.IsZero() {
		return "nil"
	}
	return text(v, quiet)
}

// titles are the names of nested blocks that are not their field's.
var titles = map[string]string{
	"Affinities": "Affinity", "Identities": "Identity", "DynamicPorts": "Dynamic Port", "ReservedPorts": "Static Port",
}

// plurals are fields whose blocks are named without the last letter.
var plurals = []string{
	"Constraints", "Spreads", "Volumes", "Networks", "Services", "Checks", "Artifacts", "Templates",
	"VolumeMounts", "ScalingPolicies", "Secrets", "Actions", "Devices", "Regions", "Links", "Upstreams",
}

// before are fields that are shown before another one.
var before = map[reflect.Type]map[string]string{
	reflect.TypeFor[api.TaskGroup](): {"Migrate": "ReschedulePolicy", "Scaling": "Services"},
}

func title(field string) string {
	if t, ok := titles[field]; ok {
		return t
	}
	if slices.Contains(plurals, field) {
		return strings.TrimSuffix(field, "s")
	}
	return field
}

// block compares structs. With context, fields that are equal are listed too, as type None.
type block struct{ context bool }

// compare lists what differs between two structs of type t; one of them may be the zero Value.
func (b block) compare(t reflect.Type, old, next reflect.Value) ([]*api.FieldDiff, []*api.ObjectDiff) {
	var fields []*api.FieldDiff
	var objects []*api.ObjectDiff
	for _, i := range order(t) {
		f := t.Field(i)
		if !f.IsExported() || slices.Contains(hidden[t], f.Name) {
			continue
		}
		o, n := at(old, i), at(next, i)
		switch shape(f.Type) {
		case scalar:
			quiet := slices.Contains(unset[t], f.Name)
			if quiet && zero(o) && zero(n) {
				continue
			}
			fields = b.field(fields, f.Name, textOf(t, f.Name, o, quiet), textOf(t, f.Name, n, quiet))
		case free:
			if named := b.free(f.Name, o, n); f.Type == textMap {
				fields = append(fields, named...)
			} else if changed(named) {
				objects = append(objects, whole(f.Name, o, n, named, nil))
			}
		case list:
			objects = append(objects, b.list(f.Name, o, n)...)
		case nested:
			objects = append(objects, object(title(f.Name), f.Type, o, n)...)
		case several:
			objects = append(objects, set(title(f.Name), f.Type, o, n)...)
		}
	}
	slices.SortStableFunc(fields, func(x, y *api.FieldDiff) int { return strings.Compare(x.Name, y.Name) })
	return fields, objects
}

// order are the fields of a struct as they are shown.
func order(t reflect.Type) []int {
	all := make([]int, t.NumField())
	for i := range all {
		all[i] = i
	}
	if moved, ok := before[t]; ok {
		place := func(i int) int {
			if to, ok := moved[t.Field(i).Name]; ok {
				f, _ := t.FieldByName(to)
				return 2*f.Index[0] - 1
			}
			return 2 * i
		}
		slices.SortStableFunc(all, func(i, j int) int { return place(i) - place(j) })
	}
	return all
}

// at is field i of a struct; the zero Value when there is no struct.
func at(v reflect.Value, i int) reflect.Value {
	if !v.IsValid() {
		return v
	}
	return v.Field(i)
}

func zero(v reflect.Value) bool { return !v.IsValid() || v.IsZero() }

// field appends the difference of one value.
func (b block) field(fields []*api.FieldDiff, name, old, next string) []*api.FieldDiff {
	kind := Edited
	switch {
	case old == next:
		kind = None
	case old == "":
		kind = Added
	case next == "":
		kind = Deleted
	}
	if kind == None && !b.context {
		return fields
	}
	return append(fields, &api.FieldDiff{Type: kind, Name: name, Old: old, New: next})
}

func changed(fields []*api.FieldDiff) bool {
	return slices.ContainsFunc(fields, func(f *api.FieldDiff) bool { return f.Type != None })
}

// object compares one nested block.
func object(name string, t reflect.Type, old, next reflect.Value) []*api.ObjectDiff {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
		old, next = behind(old), behind(next)
	}
	if !old.IsValid() && !next.IsValid() {
		return nil
	}
	fields, objects := block{context: true}.compare(t, old, next)
	if old.IsValid() && next.IsValid() && !changed(fields) && len(objects) == 0 {
		return nil
	}
	kind := kindOf(old.IsValid(), next.IsValid(), true)
	return []*api.ObjectDiff{{Type: kind, Name: name, Fields: fields, Objects: objects}}
}

// behind is what a pointer or interface holds; the zero Value when nothing.
func behind(v reflect.Value) reflect.Value {
	if !v.IsValid() || v.IsNil() {
		return reflect.Value{}
	}
	return v.Elem()
}

// whole is the difference of a list or map as one block: added when it was empty before.
func whole(name string, old, next reflect.Value, fields []*api.FieldDiff, objects []*api.ObjectDiff) *api.ObjectDiff {
	had, has := old.IsValid() && old.Len() > 0, next.IsValid() && next.Len() > 0
	return &api.ObjectDiff{Type: kindOf(had, has, true), Name: name, Fields: fields, Objects: objects}
}
