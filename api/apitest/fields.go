// Package apitest walks all fields of a type, for tests of code that lists fields by hand: comparisons, copies,
// merges and redactions. A field that is added to the type and forgotten there fails such a test.
package apitest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Field is a value somewhere in a struct: a text, a number, a bool, a time or a []byte. Lists and maps have one entry.
type Field struct {
	// Path is like "Tasks[].Cpu.CpuShares".
	Path  string
	steps []step
}

// step goes one level down: into a field of a struct, or into what a pointer, a list or a map holds.
type step struct{ field int }

const into = -1

// Fields lists all fields of the struct that v points to. Those whose path begins with one of skip are left out.
func Fields(v any, skip ...string) []Field {
	w := walk{skip: skip, open: map[reflect.Type]bool{}}
	w.visit(reflect.TypeOf(v).Elem(), "", nil)
	return w.found
}

// Full gives every field of the struct that v points to a value other than zero, and returns v.
func Full[T any](v T) T {
	for _, f := range Fields(v) {
		f.put(v, 1)
	}
	return v
}

// Set gives the field of v a value that is neither zero nor that of [Full].
func (f Field) Set(v any) { f.put(v, 2) }

// Get returns the value of the field of v, and nil where something on the way to it is nil or empty.
func (f Field) Get(v any) any {
	at := reflect.ValueOf(v).Elem()
	for _, s := range f.steps {
		if at = down(at, s); !at.IsValid() {
			return nil
		}
	}
	return at.Interface()
}

func down(v reflect.Value, s step) reflect.Value {
	switch {
	case s.field != into:
		return v.Field(s.field)
	case v.Kind() == reflect.Pointer:
		return v.Elem()
	case v.Len() == 0:
		return reflect.Value{}
	case v.Kind() == reflect.Map:
		return v.MapIndex(reflect.ValueOf(key).Convert(v.Type().Key()))
	}
	return v.Index(0)
}

const key = "key"

func (f Field) put(v any, n int64) { put(reflect.ValueOf(v).Elem(), f.steps, n) }

func put(v reflect.Value, steps []step, n int64) {
	if len(steps) == 0 {
		leaf(v, n)
		return
	}
	if steps[0].field != into {
		put(v.Field(steps[0].field), steps[1:], n)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		put(v.Elem(), steps[1:], n)
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		put(v.Index(0), steps[1:], n)
	default:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		at := reflect.ValueOf(key).Convert(v.Type().Key())
		entry := reflect.New(v.Type().Elem()).Elem()
		if old := v.MapIndex(at); old.IsValid() {
			entry.Set(old)
		}
		put(entry, steps[1:], n)
		v.SetMapIndex(at, entry)
	}
}

func leaf(v reflect.Value, n int64) {
	text := fmt.Sprintf("text %d", n)
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(n, 0)))
	case v.Kind() == reflect.Slice:
		v.SetBytes([]byte(text))
	case v.Kind() == reflect.Interface:
		v.Set(reflect.ValueOf(text))
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		v.SetBool(n%2 == 1 || v.IsZero())
	case v.CanInt():
		v.SetInt(n)
	case v.CanUint():
		v.SetUint(uint64(n))
	case v.CanFloat():
		v.SetFloat(float64(n))
	}
}

type walk struct {
	skip  []string
	open  map[reflect.Type]bool
	found []Field
}

func (w *walk) visit(t reflect.Type, path string, steps []step) {
	if slices.ContainsFunc(w.skip, func(s string) bool {
		return path == s || strings.HasPrefix(path, s+".") || strings.HasPrefix(path, s+"[")
	}) {
		return
	}
	in := append(slices.Clip(steps), step{into})
	switch {
	case t == reflect.TypeFor[time.Time](), t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		w.found = append(w.found, Field{path, steps})
	case t.Kind() == reflect.Struct:
		w.fields(t, path, steps)
	case t.Kind() == reflect.Pointer:
		w.visit(t.Elem(), path, in)
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Map:
		w.visit(t.Elem(), path+"[]", in)
	case t.Kind() != reflect.Func && t.Kind() != reflect.Chan:
		w.found = append(w.found, Field{path, steps})
	}
}

// fields visits a struct. A type that holds itself is entered once.
func (w *walk) fields(t reflect.Type, path string, steps []step) {
	if w.open[t] {
		return
	}
	w.open[t] = true
	defer delete(w.open, t)
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		name := f.Name
		if path != "" {
			name = path + "." + name
		}
		if f.Anonymous {
			name = path
		}
		w.visit(f.Type, name, append(slices.Clip(steps), step{i}))
	}
}
