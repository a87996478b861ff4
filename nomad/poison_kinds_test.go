package nomad_test

import (
	"math"
	"reflect"
	"strings"
	"time"
)

// place is a field of a request: the fields on the way to it, through lists, maps and pointers.
type place struct {
	path []int
	name string
}

// places are all fields that a type leads to, each field of each type once, on the shortest way.
func places(t reflect.Type) (out []place) {
	type way struct {
		t  reflect.Type
		at place
	}
	seen := map[reflect.Type]bool{}
	for next := []way{{t: t}}; len(next) > 0; next = next[1:] {
		w := next[0]
		w.t = held(w.t)
		if w.t.Kind() != reflect.Struct || w.t == reflect.TypeFor[time.Time]() || seen[w.t] {
			continue
		}
		seen[w.t] = true
		for i := range w.t.NumField() {
			f := w.t.Field(i)
			if !f.IsExported() || f.Tag.Get("msg") == "-" {
				continue
			}
			at := place{append(append([]int(nil), w.at.path...), i), w.at.name + "." + f.Name}
			out = append(out, at)
			next = append(next, way{t: f.Type, at: at})
		}
	}
	return out
}

// held is what pointers, lists and maps of a type hold in the end.
func held(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t
}

// set has a function change the field of a value; what is missing on the way is made.
func (p place) set(v reflect.Value, change func(reflect.Value)) { reach(v, p.path, change) }

func reach(v reflect.Value, path []int, change func(reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		reach(v.Elem(), path, change)
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		reach(v.Index(0), path, change)
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		if keys := v.MapKeys(); len(keys) > 0 {
			key = keys[0]
			value.Set(v.MapIndex(key))
		} else if key.Kind() == reflect.String {
			key.SetString("g")
		}
		reach(value, path, change)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if len(path) == 1 {
			change(v.Field(path[0]))
		} else {
			reach(v.Field(path[0]), path[1:], change)
		}
	}
}

// Sizes of what is huge: more than any name or list of a person's, and little enough to be tried everywhere.
const (
	hugeText = 64 << 10
	hugeList = 3000
	deepNest = 20_000
)

// poison is a bad value with its name.
type poison struct {
	name string
	set  func(reflect.Value)
}

func value(name string, v any) poison {
	return poison{name, func(f reflect.Value) { f.Set(reflect.ValueOf(v).Convert(f.Type())) }}
}

// poisons are the bad values of a type.
func poisons(t reflect.Type) []poison {
	zero := poison{"zero", func(f reflect.Value) { f.SetZero() }}
	if t == reflect.TypeFor[time.Time]() {
		return []poison{zero, value("far past", time.Unix(-1<<40, 0)), value("far future", time.Unix(1<<40, 0))}
	}
	switch t.Kind() {
	case reflect.String:
		return []poison{
			zero, value("control characters", "a\x00\x1b[2J\nFAKED\u202e\xff/../.."), value("huge", strings.Repeat("x", hugeText)),
		}
	case reflect.Bool:
		return []poison{{"the other", func(f reflect.Value) { f.SetBool(!f.Bool()) }}}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		least := int64(-1) << (t.Bits() - 1)
		return []poison{zero, value("-1", -1), value("least", least), value("most", -(least + 1))}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return []poison{zero, value("most", uint64(math.MaxUint64)>>(64-t.Bits()))}
	case reflect.Float32, reflect.Float64:
		return []poison{zero, value("not a number", math.NaN()), value("infinite", math.Inf(-1)), value("most", math.MaxFloat64)}
	case reflect.Pointer:
		out := []poison{zero}
		for _, p := range append(poisons(t.Elem()), poison{"empty", func(reflect.Value) {}}) {
			out = append(out, poison{p.name, func(f reflect.Value) {
				f.Set(reflect.New(t.Elem()))
				p.set(f.Elem())
			}})
		}
		return out
	case reflect.Slice:
		return append(lists(t), zero)
	case reflect.Map:
		return append(maps(t), zero)
	case reflect.Interface:
		return []poison{
			zero, value("deep", nested(deepNest)), value("not a number", math.NaN()), value("huge", strings.Repeat("x", hugeText)),
			value("list", []any{nil, map[string]any{"": nil}}), value("bytes", []byte{0xff}),
		}
	}
	return []poison{zero}
}

func nested(n int) (v any) {
	for range n {
		v = []any{v}
	}
	return v
}

func lists(t reflect.Type) []poison {
	of := func(name string, n int) poison {
		return poison{name, func(f reflect.Value) { f.Set(reflect.MakeSlice(t, n, n)) }}
	}
	if t.Elem().Kind() == reflect.Uint8 {
		return []poison{of("bytes", 1), of("huge", 1_000_001)}
	}
	out := []poison{of("empty", 0), of("one zero", 1)}
	if t.Elem().Kind() == reflect.Struct {
		return append(out, of("huge", hugeList/10))
	}
	if t.Elem().Kind() == reflect.Pointer {
		return append(out, poison{"many empty", func(f reflect.Value) {
			f.Set(reflect.MakeSlice(t, hugeList/10, hugeList/10))
			for i := range f.Len() {
				f.Index(i).Set(reflect.New(t.Elem().Elem()))
			}
		}})
	}
	return append(out, of("huge", hugeList))
}

func maps(t reflect.Type) []poison {
	if t.Key().Kind() != reflect.String {
		return nil
	}
	of := func(name string, keys []string, elem func() reflect.Value) poison {
		return poison{name, func(f reflect.Value) {
			f.Set(reflect.MakeMap(t))
			for _, k := range keys {
				f.SetMapIndex(reflect.ValueOf(k).Convert(t.Key()), elem())
			}
		}}
	}
	empty := func() reflect.Value { return reflect.Zero(t.Elem()) }
	filled := empty
	if t.Elem().Kind() == reflect.Pointer {
		filled = func() reflect.Value { return reflect.New(t.Elem().Elem()) }
	}
	var many []string
	for i := range hugeList {
		many = append(many, strings.Repeat("k", i%40)+string(rune(0x4e00+i)))
	}
	out := []poison{
		of("zero of x", []string{"x"}, empty), of("odd names", []string{"", "a\x00\n\x1b[2J\xff", strings.Repeat("x", hugeText)}, filled), of("huge", many, filled),
	}
	if t.Elem().Kind() == reflect.Interface {
		out = append(out,
			of("deep", []string{"x"}, func() reflect.Value { return reflect.ValueOf(nested(deepNest)) }),
			of("not a number", []string{"x"}, func() reflect.Value { return reflect.ValueOf(math.NaN()) }))
	}
	return out
}
