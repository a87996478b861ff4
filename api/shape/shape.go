// Package shape refuses values that have the right types and that no code is written for: a null in a list or
// a map, and more entries than a decoder reads. Nil fields are allowed. Input of clients must also be valid
// as JSON, with values of any type: else one object would break every reply that lists it.
//
// What there is to look for in a type is found once; a type whose lists and maps hold no pointers costs a
// comparison of lengths.
package shape

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/open-nomad/open-nomad/api/fault"
)

// EntriesMax is how many entries a list, a map or a []byte may have where its field does not say otherwise. It
// equals the "msgp:limit" directives of the types.
const EntriesMax = 1_000_000

// Check rejects a value and names the first invalid field. Its rules never change:
// it validates entries of the log.
func Check(v any) error { return known.check(v) }

// Input is Check for requests: it also rejects values that JSON cannot represent.
func Input(v any) error { return knownInput.check(v) }

func (k *looks) check(v any) error {
	if v == nil {
		return nil
	}
	t := reflect.TypeOf(v)
	bad := k.of(t).find(reflect.ValueOf(v))
	if bad == nil {
		return nil
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return fault.New(fault.Invalid, "%s%s %s", t.Name(), bad.path, bad.why)
}

// flaw is where something is wrong, built from the inside out, and what.
type flaw struct {
	path, why  string
	everywhere bool // in a value of any type: a path into it does not help
}

func (f *flaw) at(step string) *flaw {
	f.path = step + f.path
	return f
}

// look finds the first flaw of values of one type.
type look struct{ find func(reflect.Value) *flaw }

// looks are made when a type is first met.
type looks struct {
	input bool
	mu    sync.Mutex
	by    sync.Map // reflect.Type to *look
}

var known, knownInput = looks{}, looks{input: true}

func (k *looks) of(t reflect.Type) *look {
	if l, ok := k.by.Load(t); ok {
		return l.(*look)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	made := map[reflect.Type]*look{}
	l := k.learn(t, made)
	for t, l := range made {
		k.by.Store(t, l)
	}
	return l
}

// learn makes the look for a type; one that holds itself meets what is being made.
func (k *looks) learn(t reflect.Type, made map[reflect.Type]*look) *look {
	if l, ok := k.by.Load(t); ok {
		return l.(*look)
	}
	if l := made[t]; l != nil {
		return l
	}
	l := &look{find: func(reflect.Value) *flaw { return nil }}
	made[t] = l
	switch t.Kind() {
	case reflect.Pointer:
		inner := k.learn(t.Elem(), made)
		l.find = func(v reflect.Value) *flaw {
			if v.IsNil() {
				return nil
			}
			return inner.find(v.Elem())
		}
	case reflect.Struct:
		l.find = k.fields(t, made)
	case reflect.Slice, reflect.Map:
		l.find = k.entries(t, EntriesMax, made)
	}
	if k.input {
		switch {
		case t == timeType:
			l.find = dated
		case t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64:
			l.find = finite
		case t.Kind() == reflect.Interface:
			l.find = func(v reflect.Value) *flaw { return checkJSONValue(v, 0) }
		}
	}
	return l
}

// holds reports whether values of the type may hold what is looked for.
func (k *looks) holds(t reflect.Type, seen map[reflect.Type]bool) bool {
	switch t.Kind() {
	case reflect.Slice, reflect.Map:
		return true
	case reflect.Float32, reflect.Float64, reflect.Interface:
		return k.input
	case reflect.Pointer:
		return k.holds(t.Elem(), seen)
	case reflect.Struct:
		if t == timeType {
			return k.input
		}
		if seen[t] {
			return false
		}
		seen[t] = true
		for i := range t.NumField() {
			if t.Field(i).IsExported() && k.holds(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}

type field struct {
	number int
	name   string
	find   func(reflect.Value) *flaw
}

func (k *looks) fields(t reflect.Type, made map[reflect.Type]*look) func(reflect.Value) *flaw {
	var all []field
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() || f.Tag.Get("msg") == "-" || !k.holds(f.Type, map[reflect.Type]bool{}) {
			continue
		}
		if f.Type.Kind() == reflect.Slice || f.Type.Kind() == reflect.Map {
			all = append(all, field{i, f.Name, k.entries(f.Type, limit(f.Tag), made)})
			continue
		}
		inner := k.learn(f.Type, made)
		all = append(all, field{i, f.Name, func(v reflect.Value) *flaw { return inner.find(v) }})
	}
	return func(v reflect.Value) *flaw {
		for i := range all {
			if bad := all[i].find(v.Field(all[i].number)); bad != nil {
				return bad.at("." + all[i].name)
			}
		}
		return nil
	}
}

// limit reads what a field's decoder allows.
func limit(tag reflect.StructTag) int {
	for _, option := range strings.Split(tag.Get("msg"), ",") {
		if text, ok := strings.CutPrefix(option, "limit="); ok {
			if n, err := strconv.Atoi(text); err == nil {
				return n
			}
		}
	}
	return EntriesMax
}

func (k *looks) entries(t reflect.Type, limit int, made map[reflect.Type]*look) func(reflect.Value) *flaw {
	each, deep := t.Elem(), k.holds(t.Elem(), map[reflect.Type]bool{})
	pointers := each.Kind() == reflect.Pointer
	var inner *look
	if deep {
		inner = k.learn(each, made)
	}
	one := func(v reflect.Value) *flaw {
		if pointers && v.IsNil() {
			return &flaw{why: "is null"}
		}
		if deep {
			return inner.find(v)
		}
		return nil
	}
	return func(v reflect.Value) *flaw {
		n := v.Len()
		switch {
		case n > limit:
			return &flaw{why: fmt.Sprintf("has %d entries; at most %d are possible", n, limit)}
		case !pointers && !deep:
			return nil
		case t.Kind() == reflect.Slice:
			for i := range n {
				if bad := one(v.Index(i)); bad != nil {
					return bad.at("[" + strconv.Itoa(i) + "]")
				}
			}
			return nil
		}
		for i := v.MapRange(); i.Next(); {
			if bad := one(i.Value()); bad != nil {
				return bad.at(fmt.Sprintf("[%q]", fmt.Sprint(i.Key())))
			}
		}
		return nil
	}
}
