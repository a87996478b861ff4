package diff

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
)

// The shapes of a field.
const (
	scalar  = iota // one value
	list           // values
	free           // a map of values, to any depth
	nested         // a block
	several        // blocks
)

var textMap = reflect.TypeFor[map[string]string]()

func shape(t reflect.Type) int {
	switch t.Kind() {
	case reflect.Pointer:
		return shape(t.Elem())
	case reflect.Struct:
		return nested
	case reflect.Slice, reflect.Map:
		switch {
		case t.Elem().Kind() == reflect.Uint8:
			return scalar
		case t.Elem().Kind() != reflect.Interface && shape(t.Elem()) == nested:
			return several
		case t.Kind() == reflect.Map:
			return free
		}
		return list
	default:
		return scalar
	}
}

// text is a value as shown; nothing is the empty string, and a quiet zero too.
func text(v reflect.Value, quiet bool) string {
	for v.IsValid() && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) {
		v = behind(v)
	}
	if !v.IsValid() || quiet && v.IsZero() {
		return ""
	}
	switch {
	case v.Kind() == reflect.String:
		return v.String()
	case v.Kind() == reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10)
	case v.CanUint():
		return strconv.FormatUint(v.Uint(), 10)
	case v.CanFloat():
		return strconv.FormatFloat(v.Float(), 'f', -1, 64)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		return string(v.Bytes())
	default:
		return fmt.Sprint(v)
	}
}

// free compares maps to any depth; Meta {team} is named Meta[team]. A map of free-form values is a
// block of its own, whose keys are named as they are.
func (b block) free(name string, old, next reflect.Value) []*api.FieldDiff {
	before, after := map[string]string{}, map[string]string{}
	prefix := name
	if t := typeOf(old, next); t != nil && t != textMap {
		prefix = ""
		b.context = true
	}
	flatten(before, prefix, old)
	flatten(after, prefix, next)
	all := maps.Clone(before)
	maps.Copy(all, after)
	var fields []*api.FieldDiff
	for _, k := range slices.Sorted(maps.Keys(all)) {
		fields = b.field(fields, k, before[k], after[k])
	}
	return fields
}

func typeOf(values ...reflect.Value) reflect.Type {
	for _, v := range values {
		if v.IsValid() {
			return v.Type()
		}
	}
	return nil
}

// flatten writes the leaves below v into out by their path.
func flatten(out map[string]string, path string, v reflect.Value) {
	for v.IsValid() && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) {
		v = behind(v)
	}
	if !v.IsValid() {
		return
	}
	switch {
	case v.Kind() == reflect.Map:
		for _, k := range v.MapKeys() {
			key := text(k, false)
			if path != "" {
				key = path + "[" + key + "]"
			}
			flatten(out, key, v.MapIndex(k))
		}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		for i := range v.Len() {
			flatten(out, path+"["+strconv.Itoa(i)+"]", v.Index(i))
		}
	default:
		out[path] = text(v, false)
	}
}

// list compares lists of values: what was added and what was deleted; when only the order is
// another, the places that changed.
func (b block) list(name string, old, next reflect.Value) []*api.ObjectDiff {
	before, after := texts(old), texts(next)
	if slices.Equal(before, after) {
		return nil
	}
	rest := slices.Clone(before)
	var fields []*api.FieldDiff
	for _, v := range after {
		if i := slices.Index(rest, v); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
			fields = b.field(fields, name, v, v)
			continue
		}
		fields = append(fields, &api.FieldDiff{Type: Added, Name: name, New: v})
	}
	for _, v := range rest {
		fields = append(fields, &api.FieldDiff{Type: Deleted, Name: name, Old: v})
	}
	if !changed(fields) {
		fields = nil
		for i := range after {
			fields = b.field(fields, name+"["+strconv.Itoa(i)+"]", before[i], after[i])
		}
	}
	return []*api.ObjectDiff{whole(name, old, next, fields, nil)}
}

func texts(v reflect.Value) []string {
	if !v.IsValid() {
		return nil
	}
	out := make([]string, v.Len())
	for i := range out {
		out[i] = text(v.Index(i), false)
	}
	return out
}
