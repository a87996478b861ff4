// Package fields lists the fields of the structs that make up a job, as the readers of HCL and of JSON decode them: by
// their hcl tags, and those first that others take over.
package fields

import (
	"reflect"
	"slices"
	"strings"
)

// Field is one field of a struct: the content of its hcl tag, and its number. Without a tag Name and Kind are empty.
type Field struct {
	// Name is that of the attribute or block in files.
	Name string
	// Kind is "block", "label", "optional" or, for attributes that must be there, "".
	Kind string
	// Index is the number of the field in its struct.
	Index int
}

// All lists the fields of a struct type in the order in which they are decoded.
func All(t reflect.Type) []Field {
	all := make([]Field, t.NumField())
	for i := range all {
		name, kind, _ := strings.Cut(t.Field(i).Tag.Get("hcl"), ",")
		all[i] = Field{name, kind, i}
	}
	slices.SortStableFunc(all, func(a, b Field) int { return inherited(b) - inherited(a) })
	return all
}

// Tagged lists those fields that files can give a value.
func Tagged(t reflect.Type) []Field {
	return slices.DeleteFunc(All(t), func(f Field) bool { return f.Name == "-" || f.Name == "" && f.Kind == "" })
}

// inherited is 1 for blocks that blocks inside take over: they are decoded first.
func inherited(f Field) int {
	if f.Kind == "block" && (f.Name == "restart" || f.Name == "update") {
		return 1
	}
	return 0
}

// Elem is the struct behind a block field: *T, []*T, []T or map[string]*T.
func Elem(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t
}
