package rest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"sync"

	"github.com/open-nomad/open-nomad/api/fault"
)

// nullable is an answer that may be null.
type nullable struct{ to any }

// decode reads an answer. Callers may use what they get without looking for nil: an object that is null, and a
// null in a list or map of objects, are errors. A list that is null is an empty one.
func decode(from io.Reader, out any) error {
	optional, mayBeNull := out.(nullable)
	if mayBeNull {
		out = optional.to
	}
	to := reflect.ValueOf(out).Elem()
	body := bufio.NewReader(from)
	if startsNull(body) && !mayBeNull && (to.Kind() != reflect.Slice || to.Type() == reflect.TypeFor[json.RawMessage]()) {
		return fault.New(fault.Internal, "it is null")
	}
	if err := json.NewDecoder(body).Decode(out); err != nil {
		return err
	}
	if at, found := hole(to); found {
		return fault.New(fault.Internal, "there is a null in it: %s", at)
	}
	return nil
}

// startsNull looks at the first word of a JSON text.
func startsNull(r *bufio.Reader) bool {
	for {
		b, err := r.Peek(1)
		if err != nil {
			return false
		}
		if bytes.IndexByte([]byte(" \t\r\n"), b[0]) < 0 {
			break
		}
		_, _ = r.Discard(1)
	}
	word, _ := r.Peek(len("null"))
	return string(word) == "null"
}

// hole finds a null among the objects of a list or map and returns its path.
func hole(v reflect.Value) (at string, found bool) {
	if !mayHold(v.Type()) {
		return "", false
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return "", false
		}
		return hole(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("null") == "allowed" { // only its keys matter
				continue
			}
			if at, found = hole(v.Field(i)); found {
				return "." + v.Type().Field(i).Name + at, true
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if at, found = member(v.Index(i)); found {
				return fmt.Sprintf("[%d]%s", i, at), true
			}
		}
	case reflect.Map:
		for all := v.MapRange(); all.Next(); {
			if at, found = member(all.Value()); found {
				return fmt.Sprintf("[%q]%s", all.Key(), at), true
			}
		}
	}
	return "", false
}

func member(v reflect.Value) (at string, found bool) {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return "", true
	}
	return hole(v)
}

var holders sync.Map // reflect.Type -> bool

// mayHold reports whether values of a type can have lists or maps of objects.
func mayHold(t reflect.Type) bool {
	if known, ok := holders.Load(t); ok {
		return known.(bool)
	}
	answer := holds(t, map[reflect.Type]bool{})
	holders.Store(t, answer)
	return answer
}

func holds(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer:
		return holds(t.Elem(), seen)
	case reflect.Slice, reflect.Array, reflect.Map:
		return t.Elem().Kind() == reflect.Pointer || holds(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && holds(f.Type, seen) {
				return true
			}
		}
	}
	return false
}
