package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Golden checks that logs of the past stay readable: for each registered kind, dir holds an entry
// with every field set, which must decode and encode to the same bytes. A field that was renamed,
// re-typed or removed fails it; one that was added does not. With rewrite, missing entries are
// written, and only those: an entry that is there is history.
func Golden(r *Registry, dir string, rewrite bool) error {
	kinds := r.Kinds()
	slices.Sort(kinds)
	var errs []error
	for _, k := range kinds {
		path := filepath.Join(dir, fmt.Sprintf("%05d.entry", k))
		b, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) && rewrite {
			b, err = writeGolden(r.New(k), path)
		}
		if err == nil {
			err = checkGolden(r, k, b)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("command kind %d (%T): %w", k, r.New(k), err))
		}
	}
	return errors.Join(errs...)
}

func goldenTime() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC) }

func writeGolden(cmd Command, path string) ([]byte, error) {
	fill(reflect.ValueOf(cmd).Elem(), "", map[reflect.Type]int{})
	b, err := EncodeEntry(cmd, goldenTime(), "golden")
	if err != nil {
		return nil, err
	}
	return b, os.WriteFile(path, b, 0o600)
}

func checkGolden(r *Registry, k Kind, b []byte) error {
	e, err := decodeEntry(b)
	if err != nil {
		return err
	}
	if e.kind != k {
		return fault.New(fault.Invalid, "the golden entry has kind %d", e.kind)
	}
	cmd := r.New(k)
	rest, err := cmd.UnmarshalMsg(e.body)
	if err != nil || len(rest) > 0 {
		return fault.New(fault.Invalid, "the golden entry does not decode (%d bytes left): %v", len(rest), err)
	}
	again, err := EncodeEntry(cmd, e.time, e.proposer)
	if err != nil {
		return err
	}
	if !bytes.Equal(again, b) {
		return fault.New(fault.Invalid, "a field of the golden entry is lost: was one renamed, re-typed or removed?")
	}
	return nil
}

// fill sets every field that can be encoded to something that is not zero. Types that hold
// themselves are filled once.
func fill(v reflect.Value, name string, open map[reflect.Type]int) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(7 + len(name)))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(7 + len(name)))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(len(name)) + 0.5)
	case reflect.String:
		v.SetString("a " + name)
	case reflect.Interface:
		v.Set(reflect.ValueOf("any " + name))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name, open)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), name, open)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, name, open)
		fill(value, name, open)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		fillStruct(v, open)
	}
}

func fillStruct(v reflect.Value, open map[reflect.Type]int) {
	t := v.Type()
	if t == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(goldenTime().Local()))
		return
	}
	if open[t] > 0 {
		return
	}
	open[t]++
	defer func() { open[t]-- }()
	for i := range t.NumField() {
		if t.Field(i).IsExported() && t.Field(i).Tag.Get("msg") != "-" {
			fill(v.Field(i), t.Field(i).Name, open)
		}
	}
}
