package config

import (
	"fmt"
	"math/big"
	"reflect"
	"sort"
	"strings"
	"time"

	"github.com/agext/levenshtein"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

var durationType = reflect.TypeFor[time.Duration]()

// decoder decodes nodes over structs by their hcl tags and collects all that is wrong.
type decoder struct {
	errs     []error
	warnings []string
}

func (d *decoder) block(dst any, n *node, path string) {
	d.body(reflect.ValueOf(dst).Elem(), n, path)
}

func (d *decoder) body(dst reflect.Value, n *node, path string) {
	if !n.isBody {
		d.errs = append(d.errs, at(n, "%s must be a block", path))
		return
	}
	byKey := map[string]int{}
	for i := range dst.NumField() {
		if tag := dst.Type().Field(i).Tag.Get("hcl"); tag != "" {
			byKey[tag] = i
		}
	}
	for _, f := range n.fields {
		full := strings.TrimPrefix(path+"."+f.key, ".")
		i, ok := byKey[f.key]
		switch {
		case ok:
			d.value(dst.Field(i), f, full)
		case unused(full):
			d.warnings = append(d.warnings, at(f.node, "%s is not used by this version", full).Error())
		default:
			d.errs = append(d.errs, at(f.node, "unknown key %q%s", full, suggestion(f.key, byKey)))
		}
	}
}

func (d *decoder) value(dst reflect.Value, f field, path string) {
	switch {
	case dst.Kind() == reflect.Struct:
		d.body(dst, f.node, path)
	case dst.Kind() == reflect.Pointer: // a block that means something by being there
		if dst.IsNil() {
			dst.Set(reflect.New(dst.Type().Elem()))
		}
		d.body(dst.Elem(), f.node, path)
	case dst.Kind() == reflect.Map && dst.Type().Elem().Kind() == reflect.Struct:
		d.named(dst, f, path)
	case dst.Kind() == reflect.Map:
		d.mapping(dst, f.node, path)
	case f.node.isBody:
		d.errs = append(d.errs, at(f.node, "%s must be a value, not a block", path))
	default:
		if err := assign(dst, f.node.value); err != nil {
			d.errs = append(d.errs, at(f.node, "%s: %v", path, err))
		}
	}
}

// named decodes a labelled block, or a JSON object whose keys are the labels.
func (d *decoder) named(dst reflect.Value, f field, path string) {
	if dst.IsNil() {
		dst.Set(reflect.MakeMap(dst.Type()))
	}
	one := func(label string, n *node) {
		v := reflect.New(dst.Type().Elem()).Elem()
		if old := dst.MapIndex(reflect.ValueOf(label)); old.IsValid() {
			v.Set(old)
		}
		d.body(v, n, path)
		dst.SetMapIndex(reflect.ValueOf(label), v)
	}
	if len(f.labels) == 1 {
		one(f.labels[0], f.node)
		return
	}
	if len(f.labels) > 1 || !f.node.isBody {
		d.errs = append(d.errs, at(f.node, "%s needs one label", path))
		return
	}
	for _, inner := range f.node.fields {
		one(inner.key, inner.node)
	}
}

// mapping merges keys into a map of strings or of anything.
func (d *decoder) mapping(dst reflect.Value, n *node, path string) {
	if !n.isBody {
		d.errs = append(d.errs, at(n, "%s must be a block or a map", path))
		return
	}
	if dst.IsNil() {
		dst.Set(reflect.MakeMap(dst.Type()))
	}
	for _, f := range n.fields {
		v := reflect.New(dst.Type().Elem()).Elem()
		if v.Kind() == reflect.Interface {
			v.Set(reflect.ValueOf(anyOf(f.node)))
		} else if f.node.isBody {
			d.errs = append(d.errs, at(f.node, "%s.%s must be a string", path, f.key))
			continue
		} else if err := assign(v, f.node.value); err != nil {
			d.errs = append(d.errs, at(f.node, "%s.%s: %v", path, f.key, err))
			continue
		}
		dst.SetMapIndex(reflect.ValueOf(f.key), v)
	}
}

// assign converts a value to the kind of dst.
func assign(dst reflect.Value, v cty.Value) error {
	if v.IsNull() {
		return nil
	}
	switch {
	case dst.Type() == durationType:
		return assignDuration(dst, v)
	case dst.Kind() == reflect.Slice:
		return assignStrings(dst, v)
	}
	want := map[reflect.Kind]cty.Type{
		reflect.String: cty.String, reflect.Bool: cty.Bool, reflect.Int: cty.Number, reflect.Float64: cty.Number,
	}[dst.Kind()]
	c, err := convert.Convert(v, want)
	if err != nil {
		return fmt.Errorf("a %s is needed", want.FriendlyName())
	}
	switch dst.Kind() {
	case reflect.String:
		dst.SetString(c.AsString())
	case reflect.Bool:
		dst.SetBool(c.True())
	case reflect.Float64:
		f, _ := c.AsBigFloat().Float64()
		dst.SetFloat(f)
	case reflect.Int:
		i, accuracy := c.AsBigFloat().Int64()
		if accuracy != big.Exact {
			return fmt.Errorf("a whole number is needed")
		}
		dst.SetInt(i)
	}
	return nil
}

func assignDuration(dst reflect.Value, v cty.Value) error {
	if v.Type() == cty.Number {
		i, _ := v.AsBigFloat().Int64()
		dst.SetInt(i)
		return nil
	}
	if v.Type() != cty.String {
		return fmt.Errorf(`a duration such as "30s" is needed`)
	}
	t, err := time.ParseDuration(v.AsString())
	if err != nil {
		return fmt.Errorf(`%q is not a duration such as "30s"`, v.AsString())
	}
	dst.SetInt(int64(t))
	return nil
}

func assignStrings(dst reflect.Value, v cty.Value) error {
	if !v.CanIterateElements() {
		return fmt.Errorf("a list of strings is needed")
	}
	var list []string
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		s, err := convert.Convert(e, cty.String)
		if err != nil || s.IsNull() {
			return fmt.Errorf("a list of strings is needed")
		}
		list = append(list, s.AsString())
	}
	dst.Set(reflect.ValueOf(list))
	return nil
}

// anyOf turns a node into plain Go values for drivers' configurations.
func anyOf(n *node) any {
	if n.isBody {
		m := map[string]any{}
		for _, f := range n.fields {
			m[f.key] = anyOf(f.node)
		}
		return m
	}
	return plain(n.value)
}

func plain(v cty.Value) any {
	switch {
	case v.IsNull():
		return nil
	case v.Type() == cty.String:
		return v.AsString()
	case v.Type() == cty.Bool:
		return v.True()
	case v.Type() == cty.Number:
		if i, accuracy := v.AsBigFloat().Int64(); accuracy == big.Exact {
			return i
		}
		f, _ := v.AsBigFloat().Float64()
		return f
	case v.CanIterateElements():
		var list []any
		for it := v.ElementIterator(); it.Next(); {
			_, e := it.Element()
			list = append(list, plain(e))
		}
		return list
	}
	return nil
}

// suggestion names the known key that is nearest to a mistyped one.
func suggestion(key string, known map[string]int) string {
	var near []string
	for k := range known {
		if levenshtein.Distance(key, k, nil) <= 2 {
			near = append(near, k)
		}
	}
	if len(near) == 0 {
		return ""
	}
	sort.Strings(near)
	return fmt.Sprintf("; did you mean %q?", near[0])
}
