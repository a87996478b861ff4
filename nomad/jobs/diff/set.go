package diff

import (
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
)

// keyFields are fields that tell blocks of one list apart, the best first.
var keyFields = []string{"Name", "Label", "DestPath", "Destination", "RelativeDest", "DestinationName", "Attribute", "Value"}

// set compares lists and maps of blocks. Blocks with the same key are compared; others were added
// or deleted. Equal blocks are not shown.
func set(name string, t reflect.Type, old, next reflect.Value) []*api.ObjectDiff {
	before, after := keyed(old), keyed(next)
	all := maps.Clone(before)
	maps.Copy(all, after)
	var out []*api.ObjectDiff
	for _, k := range slices.Sorted(maps.Keys(all)) {
		objects := object(name, t.Elem(), before[k], after[k])
		if len(objects) == 1 && objects[0].Type == Edited && t.Elem() == network {
			objects = append(object(name, t.Elem(), before[k], reflect.Value{}), object(name, t.Elem(), reflect.Value{}, after[k])...)
		}
		out = append(out, objects...)
	}
	return out
}

// network is shown as deleted and added when it changes.
var network = reflect.TypeFor[*api.NetworkResource]()

// keyed are the blocks of a list or map by key; a key that comes again is numbered.
func keyed(v reflect.Value) map[string]reflect.Value {
	out := map[string]reflect.Value{}
	if !v.IsValid() {
		return out
	}
	if v.Kind() == reflect.Map {
		for _, k := range v.MapKeys() {
			out[text(k, false)] = v.MapIndex(k)
		}
		return out
	}
	for i := range v.Len() {
		e := v.Index(i)
		key := keyOf(e)
		if _, twice := out[key]; twice {
			key += "\x00" + strconv.Itoa(i)
		}
		out[key] = e
	}
	return out
}

// keyOf is what a block is known by: its key field, else all that it says.
func keyOf(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v = behind(v); !v.IsValid() {
			return ""
		}
	}
	for _, f := range keyFields {
		if k := v.FieldByName(f); k.IsValid() && k.Kind() == reflect.String && k.String() != "" {
			return k.String()
		}
	}
	leaves := map[string]string{}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && shape(f.Type) <= free {
			flatten(leaves, f.Name, v.Field(i))
		}
	}
	key := ""
	for _, k := range slices.Sorted(maps.Keys(leaves)) {
		key += k + "=" + leaves[k] + "\x00"
	}
	return key
}
