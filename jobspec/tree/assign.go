package tree

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"strconv"
	"time"
)

var durationType = reflect.TypeFor[time.Duration]()

// Assign converts a value to the type of dst. Numbers, truth values and strings are converted into each other where
// the text is one. Null leaves dst as it is.
func Assign(dst reflect.Value, v Value) error {
	switch kind := dst.Kind(); {
	case v.Kind == Null:
		return nil
	case kind == reflect.Pointer:
		inner := reflect.New(dst.Type().Elem())
		if err := Assign(inner.Elem(), v); err != nil {
			return err
		}
		dst.Set(inner)
		return nil
	case kind == reflect.Interface:
		if plain := v.Any(); plain != nil {
			dst.Set(reflect.ValueOf(plain))
		}
		return nil
	case dst.Type() == durationType:
		return assignDuration(dst, v)
	case kind == reflect.Slice:
		return assignList(dst, v)
	case kind == reflect.Map:
		return assignMap(dst, v)
	}
	return assignScalar(dst, v)
}

func assignScalar(dst reflect.Value, v Value) error {
	switch kind := dst.Kind(); {
	case kind == reflect.String && v.Kind < Null:
		dst.SetString(v.Text)
		return nil
	case kind == reflect.String:
		return fmt.Errorf("a string is needed, not %s", v.Kind)
	case kind == reflect.Bool && v.Kind < Null && (v.Text == "true" || v.Text == "false"):
		dst.SetBool(v.Text == "true")
		return nil
	case kind == reflect.Bool:
		return fmt.Errorf("true or false is needed")
	}
	n, ok := numberOf(v)
	whole, isWhole := n.(int64)
	switch {
	case !ok || v.Kind > Number:
		return fmt.Errorf("a number is needed, not %s", v.Kind)
	case dst.CanFloat():
		dst.Set(reflect.ValueOf(n).Convert(dst.Type()))
	case !isWhole:
		return fmt.Errorf("a whole number is needed")
	case dst.CanUint() && (whole < 0 || dst.OverflowUint(uint64(whole))), dst.CanInt() && dst.OverflowInt(whole):
		return fmt.Errorf("%d is out of range", whole)
	case dst.CanUint():
		dst.SetUint(uint64(whole))
	default:
		dst.SetInt(whole)
	}
	return nil
}

// numberOf returns an int64 where the number is whole, else a float64. Without quotes it may be hexadecimal.
func numberOf(v Value) (n any, ok bool) {
	base := 10
	if v.Kind == Number {
		base = 0
	}
	if i, err := strconv.ParseInt(v.Text, base, 64); err == nil {
		return i, true
	}
	f, err := strconv.ParseFloat(v.Text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, false
	}
	if whole := int64(f); float64(whole) == f && math.Abs(f) < 1<<53 {
		return whole, true
	}
	return f, true
}

// assignDuration takes texts such as "30s", and numbers of nanoseconds.
func assignDuration(dst reflect.Value, v Value) error {
	switch v.Kind {
	case Number:
		n, _ := numberOf(v)
		whole, ok := n.(int64)
		if !ok {
			return fmt.Errorf("a whole number of nanoseconds is needed")
		}
		dst.SetInt(whole)
		return nil
	case String:
		t, err := time.ParseDuration(v.Text)
		if err != nil {
			return fmt.Errorf(`%q is not a duration such as "30s"`, v.Text)
		}
		dst.SetInt(int64(t))
		return nil
	}
	return fmt.Errorf(`a duration such as "30s" is needed`)
}

func assignList(dst reflect.Value, v Value) error {
	if v.Kind != List {
		return fmt.Errorf("a list is needed, not %s", v.Kind)
	}
	list := reflect.MakeSlice(dst.Type(), len(v.List), len(v.List))
	for i, e := range v.List {
		if err := assignElement(list.Index(i), e); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	dst.Set(list)
	return nil
}

func assignMap(dst reflect.Value, v Value) error {
	if v.Kind != Block {
		return fmt.Errorf("a map is needed, not %s", v.Kind)
	}
	m := reflect.MakeMap(dst.Type())
	for _, it := range v.Items {
		e := reflect.New(dst.Type().Elem()).Elem()
		if err := assignElement(e, it.Value); err != nil {
			return fmt.Errorf("key %q: %w", it.Key, err)
		}
		m.SetMapIndex(reflect.ValueOf(it.Key), e)
	}
	dst.Set(m)
	return nil
}

// assignElement is Assign where null is a mistake, unless any value is taken.
func assignElement(dst reflect.Value, v Value) error {
	if v.Kind == Null && dst.Kind() != reflect.Interface {
		return fmt.Errorf("null is not a value here")
	}
	return Assign(dst, v)
}

// Any turns a value into plain Go values, whole numbers into int64.
func (v Value) Any() any {
	switch v.Kind {
	case Block:
		m := map[string]any{}
		for _, it := range v.Items {
			m[it.Key] = it.Value.Any()
		}
		return m
	case List:
		list := []any{}
		for _, e := range v.List {
			list = append(list, e.Any())
		}
		return list
	case Number:
		n, _ := numberOf(v)
		return n
	case Bool:
		return v.Text == "true"
	case Null:
		return nil
	}
	return v.Text
}

// merged turns items into plain Go values. Blocks of one key are merged, and a label is a key between.
func merged(items []Item) map[string]any {
	m := map[string]any{}
	for _, it := range items {
		into, key := m, it.Key
		for _, label := range it.Labels {
			inner, isMap := into[key].(map[string]any)
			if !isMap {
				inner = map[string]any{}
				into[key] = inner
			}
			into, key = inner, label
		}
		inner, isBlock := it.Value.Block()
		if old, isMap := into[key].(map[string]any); isBlock && isMap {
			maps.Copy(old, merged(inner))
		} else if isBlock {
			into[key] = merged(inner)
		} else {
			into[key] = it.Value.Any()
		}
	}
	return m
}
