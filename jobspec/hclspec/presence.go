package hclspec

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec/fields"
)

// Presence records which fields a job file sets. [Presence.Source] and [Presence.Canonical] use it to write null for
// the others.
type Presence struct {
	// set holds a bit per field with a value, by the pointer to the decoded struct.
	set map[any]uint64
	// inherited holds the blocks that a group has from its job.
	inherited map[any]bool
	// migrate and reschedule are the blocks of the job itself, which api.Job does not have.
	migrate    *api.MigrateStrategy
	reschedule *api.ReschedulePolicy
}

// add registers a struct without values. A nil Presence records nothing.
func (p *Presence) add(item any) {
	if p == nil {
		return
	}
	if p.set == nil {
		p.set, p.inherited = map[any]uint64{}, map[any]bool{}
	}
	p.set[item] = 0
}

// note records that a field of a registered struct has a value.
func (p *Presence) note(item any, field int) {
	if p != nil {
		p.set[item] |= 1 << field
	}
}

// copied records that a struct has the same fields set as another one.
func (p *Presence) copied(item, from any) {
	if p != nil {
		p.set[item] = p.set[from]
	}
}

// inherit is copied for a block that a group has from its job.
func (p *Presence) inherit(item, from any) {
	if p.copied(item, from); p != nil {
		p.inherited[item] = true
	}
}

// rules names fields by their struct. "*" stands for all scalars, and a field after "-" is excluded.
type rules map[reflect.Type]string

// nullable are the fields that are null while the file does not set them. Other fields keep their default.
var nullable = rules{
	reflect.TypeFor[api.Job]():                  "* -ID -Name -Dispatched",
	reflect.TypeFor[api.TaskGroup]():            "*",
	reflect.TypeFor[api.UpdateStrategy]():       "*",
	reflect.TypeFor[api.MigrateStrategy]():      "*",
	reflect.TypeFor[api.RestartPolicy]():        "*",
	reflect.TypeFor[api.ReschedulePolicy]():     "*",
	reflect.TypeFor[api.DisconnectStrategy]():   "*",
	reflect.TypeFor[api.EphemeralDisk]():        "*",
	reflect.TypeFor[api.Resources]():            "*",
	reflect.TypeFor[api.LogConfig]():            "*",
	reflect.TypeFor[api.VolumeMount]():          "*",
	reflect.TypeFor[api.PeriodicConfig]():       "* -SpecType",
	reflect.TypeFor[api.ChangeScript]():         "* -RunOnFirstRender",
	reflect.TypeFor[api.WaitConfig]():           "*",
	reflect.TypeFor[api.TaskArtifact]():         "* -Chown",
	reflect.TypeFor[api.Vault]():                "AllowTokenExpiration ChangeSignal Namespace",
	reflect.TypeFor[api.Template]():             "* -ChangeMode -Perms -Splay -ErrMissingKey",
	reflect.TypeFor[api.ScalingPolicy]():        "Min Max",
	reflect.TypeFor[api.Task]():                 "KillTimeout",
	reflect.TypeFor[api.SidecarTask]():          "KillTimeout ShutdownDelay",
	reflect.TypeFor[api.Affinity]():             "Weight",
	reflect.TypeFor[api.Spread]():               "Weight",
	reflect.TypeFor[api.CheckRestart]():         "Grace",
	reflect.TypeFor[api.RequestedDevice]():      "Count",
	reflect.TypeFor[api.MultiregionRegion]():    "Count",
	reflect.TypeFor[api.NetworkResource]():      "MBits",
	reflect.TypeFor[api.ConsulIngressService](): "MaxConnections MaxPendingRequests MaxConcurrentRequests",
}

// optional are the fields without a default: a job with all defaults still has null there while they are zero and the
// file does not set them.
var optional = rules{
	reflect.TypeFor[api.Job]():                  "SubmitTime DispatchIdempotencyToken",
	reflect.TypeFor[api.TaskGroup]():            "PreventRescheduleOnLost ShutdownDelay MaxRunDuration StopAfterClientDisconnect MaxClientDisconnect",
	reflect.TypeFor[api.DisconnectStrategy]():   "LostAfter StopOnClientAfter",
	reflect.TypeFor[api.Resources]():            "DiskMB IOPS MemoryMaxMB SecretsMB",
	reflect.TypeFor[api.NetworkResource]():      "MBits",
	reflect.TypeFor[api.ScalingPolicy]():        "Enabled",
	reflect.TypeFor[api.LogConfig]():            "Enabled",
	reflect.TypeFor[api.Template]():             "Uid Gid",
	reflect.TypeFor[api.ConsulIngressService](): "MaxConnections MaxPendingRequests MaxConcurrentRequests",
}

// empty are lists and maps that are not null in a job with all defaults.
var empty = rules{
	reflect.TypeFor[api.PeriodicConfig]():    "Specs",
	reflect.TypeFor[api.MultiregionRegion](): "Datacenters Meta",
}

func (r rules) has(t reflect.Type, field string) bool {
	names := strings.Fields(r[t])
	return slices.Contains(names, field) || slices.Contains(names, "*") && !slices.Contains(names, "-"+field)
}

// writer builds the JSON form of a job.
type writer struct {
	*Presence
	canonical bool
}

// Source is the JSON form of the job as the file has it, without defaults: decoded over the defaults it is the same job.
func (p *Presence) Source(j *api.Job) any { return p.json(j, false) }

// Canonical is the JSON form of the job after its defaults are filled in.
func (p *Presence) Canonical(j *api.Job) any { return p.json(j, true) }

func (p *Presence) json(j *api.Job, canonical bool) any {
	w := writer{p, canonical}
	all := w.object(reflect.ValueOf(j).Elem())
	all["Migrate"], all["Reschedule"] = w.plain(reflect.ValueOf(p.migrate)), w.plain(reflect.ValueOf(p.reschedule))
	return all
}

func (w writer) plain(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		if !w.canonical && w.inherited[v.Interface()] {
			return nil
		}
		if !v.IsNil() && v.Type().Elem().Kind() == reflect.Struct {
			return w.object(v.Elem())
		}
	case reflect.Struct:
		return w.object(v)
	case reflect.Slice:
		if !v.IsNil() && fields.Elem(v.Type()).Kind() == reflect.Struct {
			all := []any{}
			for i := range v.Len() {
				all = append(all, w.plain(v.Index(i)))
			}
			return all
		}
	case reflect.Map:
		if !v.IsNil() && fields.Elem(v.Type()).Kind() == reflect.Struct {
			all := map[string]any{}
			for it := v.MapRange(); it.Next(); {
				all[it.Key().String()] = w.plain(it.Value())
			}
			return all
		}
	}
	return v.Interface()
}

func (w writer) object(v reflect.Value) map[string]any {
	t := v.Type()
	set, known := uint64(0), false
	if v.CanAddr() {
		set, known = w.set[v.Addr().Interface()]
	}
	all := map[string]any{}
	for i := range t.NumField() {
		f, value := t.Field(i), v.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || value.IsZero() && (options == "omitempty" || f.Type == reflect.TypeFor[*api.CSIPluginConfig]()) {
			continue
		}
		name = cmp.Or(name, f.Name)
		isSet := known && set&(1<<i) != 0 || f.Tag.Get("hcl") == "" && !value.IsZero()
		switch {
		case !isSet && isScalar(f.Type) && w.isNull(t, f.Name, value, known):
			all[name] = nil
		case !isSet && isScalar(f.Type) && !w.canonical && known && emptyTexts(t, f.Name):
			all[name] = reflect.Zero(f.Type).Interface()
		case w.canonical && value.IsZero() && empty.has(t, f.Name):
			all[name] = []any{}
			if f.Type.Kind() == reflect.Map {
				all[name] = map[string]any{}
			}
		default:
			all[name] = w.plain(value)
		}
	}
	return all
}

func (w writer) isNull(t reflect.Type, field string, value reflect.Value, known bool) bool {
	return value.IsZero() && optional.has(t, field) || !w.canonical && known && nullable.has(t, field)
}

// emptyTexts reports whether the default of a field is an empty text to other programs.
func emptyTexts(t reflect.Type, field string) bool {
	return t == reflect.TypeFor[api.Service]() || t == reflect.TypeFor[api.Vault]() && field == "Cluster"
}

func isScalar(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Struct, reflect.Interface:
		return false
	}
	return true
}
