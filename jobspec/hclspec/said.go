package hclspec

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec/fields"
)

// Said notes which fields a job file gives a value: [Said.JSON] shows the job without the defaults of the others.
type Said struct {
	// fields are those with a value by their number, of each decoded struct by the pointer to it.
	fields map[any]uint64
}

// note marks a field of a struct; nil notes nothing.
func (s *Said) note(dst reflect.Value, field int) {
	if s == nil {
		return
	}
	if s.fields == nil {
		s.fields = map[any]uint64{}
	}
	s.fields[dst.Addr().Interface()] |= 1 << field
}

// begin makes a struct known, all of whose fields are without a value.
func (s *Said) begin(dst reflect.Value) {
	if s != nil && s.fields == nil {
		s.fields = map[any]uint64{}
	}
	if s != nil {
		s.fields[dst.Addr().Interface()] = 0
	}
}

// nullable are the fields, * for all scalars, that are null in the JSON form of a job while nobody has given them a
// value; with a - before it a field is none of them. Other fields keep their default.
var nullable = map[reflect.Type]string{
	reflect.TypeFor[api.Job]():                "* -ID -Name -Dispatched",
	reflect.TypeFor[api.TaskGroup]():          "*",
	reflect.TypeFor[api.UpdateStrategy]():     "*",
	reflect.TypeFor[api.MigrateStrategy]():    "*",
	reflect.TypeFor[api.RestartPolicy]():      "*",
	reflect.TypeFor[api.ReschedulePolicy]():   "*",
	reflect.TypeFor[api.DisconnectStrategy](): "*",
	reflect.TypeFor[api.EphemeralDisk]():      "*",
	reflect.TypeFor[api.Resources]():          "*",
	reflect.TypeFor[api.LogConfig]():          "*",
	reflect.TypeFor[api.VolumeMount]():        "*",
	reflect.TypeFor[api.PeriodicConfig]():     "*",
	reflect.TypeFor[api.ChangeScript]():       "*",
	reflect.TypeFor[api.WaitConfig]():         "*",
	reflect.TypeFor[api.TaskArtifact]():       "* -Chown",
	reflect.TypeFor[api.Vault]():              "* -Role -Cluster",
	reflect.TypeFor[api.Template]():           "* -ChangeMode -Perms -Splay -ErrMissingKey",
	reflect.TypeFor[api.ScalingPolicy]():      "Min Max",
	reflect.TypeFor[api.Task]():               "KillTimeout",
	reflect.TypeFor[api.SidecarTask]():        "KillTimeout ShutdownDelay",
	reflect.TypeFor[api.Affinity]():           "Weight",
	reflect.TypeFor[api.Spread]():             "Weight",
	reflect.TypeFor[api.CheckRestart]():       "Grace",
	reflect.TypeFor[api.RequestedDevice]():    "Count",
	reflect.TypeFor[api.MultiregionRegion]():  "Count",
}

// JSON is the job as what its JSON form is made of, without defaults: decoded over them, it is the same job.
func (s *Said) JSON(j *api.Job) any { return s.plain(reflect.ValueOf(j)) }

func (s *Said) plain(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && v.Type().Elem().Kind() == reflect.Struct {
			return s.object(v.Elem())
		}
	case reflect.Struct:
		return s.object(v)
	case reflect.Slice:
		if !v.IsNil() && fields.Elem(v.Type()).Kind() == reflect.Struct {
			all := []any{}
			for i := range v.Len() {
				all = append(all, s.plain(v.Index(i)))
			}
			return all
		}
	case reflect.Map:
		if !v.IsNil() && fields.Elem(v.Type()).Kind() == reflect.Struct {
			all := map[string]any{}
			for it := v.MapRange(); it.Next(); {
				all[it.Key().String()] = s.plain(it.Value())
			}
			return all
		}
	}
	return v.Interface()
}

func (s *Said) object(v reflect.Value) any {
	t := v.Type()
	said, known := uint64(0), false
	if v.CanAddr() {
		said, known = s.fields[v.Addr().Interface()]
	}
	rule := strings.Fields(nullable[t])
	all := map[string]any{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || options == "omitempty" && v.Field(i).IsZero() {
			continue
		}
		name = cmp.Or(name, f.Name)
		switch {
		case !known || said&(1<<i) != 0 || !isScalar(f.Type):
			all[name] = s.plain(v.Field(i))
		case slices.Contains(rule, f.Name) || slices.Contains(rule, "*") && !slices.Contains(rule, "-"+f.Name):
			all[name] = nil
		case t == reflect.TypeFor[api.Service](): // its defaults are empty texts to programs
			all[name] = reflect.Zero(f.Type).Interface()
		default:
			all[name] = v.Field(i).Interface()
		}
	}
	return all
}

func isScalar(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Struct, reflect.Interface:
		return false
	}
	return true
}
