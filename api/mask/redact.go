package mask

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"sync"
)

// The tag secret lists the secret fields of all types: of requests, responses, rows and commands.
const (
	secretTag = "secret"
	// secretHidden keeps the field of a list and replaces its content.
	secretHidden = "hidden"
	// secretHash replaces a text with its hash: other rows need the field as a key.
	secretHash = "hash"
)

// Redacted returns a copy without the fields that have the tag secret, at any depth, or nil for nil. The parts of the value
// that have no such field are shared with the copy.
func Redacted[T any](v *T) *T {
	return RedactedValue(v).(*T)
}

// RedactedValue is [Redacted] for a value whose type is not known.
func RedactedValue(v any) any {
	c := reflect.New(reflect.TypeOf(v)).Elem()
	c.Set(reflect.ValueOf(v))
	redact(c)
	return c.Interface()
}

func redact(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Struct:
		for _, f := range spotsOf(v.Type()) {
			hideField(v.Field(f.index), f.kind)
		}
	case v.IsNil():
	case v.Kind() == reflect.Pointer:
		redactPointer(v)
	case v.Kind() == reflect.Map:
		redactMap(v)
	default:
		redactSlice(v)
	}
}

func redactMap(v reflect.Value) {
	c := reflect.MakeMapWithSize(v.Type(), v.Len())
	for key, value := range v.Seq2() {
		entry := reflect.New(v.Type().Elem()).Elem()
		entry.Set(value)
		redact(entry)
		c.SetMapIndex(key, entry)
	}
	v.Set(c)
}

func redactPointer(v reflect.Value) {
	c := reflect.New(v.Type().Elem())
	c.Elem().Set(v.Elem())
	redact(c.Elem())
	v.Set(c)
}

func redactSlice(v reflect.Value) {
	c := reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v)
	for i := range c.Len() {
		redact(c.Index(i))
	}
	v.Set(c)
}

func hideField(v reflect.Value, kind string) {
	switch {
	case v.IsZero():
	case kind == "":
		redact(v)
	case kind == secretHash:
		sum := sha256.Sum256([]byte(v.String()))
		v.SetString(hex.EncodeToString(sum[:]))
	case kind == secretHidden:
		v.Set(reflect.ValueOf([]string{"[REDACTED]"}))
	default:
		v.SetZero()
	}
}

// spot is a field that is secret, or with kind "" one that contains secret fields.
type spot struct {
	index int
	kind  string
}

var spots sync.Map

func spotsOf(t reflect.Type) []spot {
	if known, ok := spots.Load(t); ok {
		return known.([]spot)
	}
	var found []spot
	for i := range t.NumField() {
		f := t.Field(i)
		if kind := f.Tag.Get(secretTag); kind != "" || f.IsExported() && findSecret(f.Type, map[reflect.Type]bool{}) {
			found = append(found, spot{i, kind})
		}
	}
	spots.Store(t, found)
	return found
}

func findSecret(t reflect.Type, open map[reflect.Type]bool) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return findSecret(t.Elem(), open)
	case reflect.Struct:
		return !open[t] && findSecretField(t, open)
	}
	return false
}

func findSecretField(t reflect.Type, open map[reflect.Type]bool) bool {
	open[t] = true
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Tag.Get(secretTag) != "" || f.IsExported() && findSecret(f.Type, open) {
			return true
		}
	}
	return false
}
