package config

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/agext/levenshtein"

	"github.com/open-nomad/open-nomad/jobspec/hcl1"
)

var durationType = reflect.TypeFor[time.Duration]()

// decoder decodes a file over structs by their hcl tags and collects all that is wrong.
type decoder struct {
	path     string
	errs     []error
	warnings []string
}

func (d *decoder) at(it hcl1.Item, format string, args ...any) error {
	return &hcl1.Error{Path: d.path, At: it.At, Reason: fmt.Sprintf(format, args...)}
}

func (d *decoder) wrong(it hcl1.Item, format string, args ...any) {
	d.errs = append(d.errs, d.at(it, format, args...))
}

// block returns the content of a block. In JSON it may be a list of one or several.
func block(v hcl1.Value) (items []hcl1.Item, ok bool) {
	if v.Kind != hcl1.List {
		return v.Items, v.Kind == hcl1.Block
	}
	for _, e := range v.List {
		if e.Kind != hcl1.Block {
			return nil, false
		}
		items = append(items, e.Items...)
	}
	return items, len(v.List) > 0
}

func (d *decoder) body(dst reflect.Value, items []hcl1.Item, path string) {
	byKey := map[string]int{}
	for i := range dst.NumField() {
		if tag := dst.Type().Field(i).Tag.Get("hcl"); tag != "" {
			byKey[tag] = i
		}
	}
	d.twice(items)
	for _, it := range items {
		full := strings.TrimPrefix(path+"."+it.Key, ".")
		i, ok := byKey[it.Key]
		switch {
		case ok:
			d.value(dst.Field(i), it, full)
		case unused(full):
			d.hurts(it, full)
			d.warnings = append(d.warnings, d.at(it, "%s is not used by this version", full).Error())
		default:
			d.wrong(it, "unknown key %q%s", full, suggestion(it.Key, byKey))
		}
	}
}

// twice refuses values that are given twice. Blocks with the same key are merged.
func (d *decoder) twice(items []hcl1.Item) {
	seen := map[string]hcl1.Place{}
	for _, it := range items {
		if _, isBlock := block(it.Value); isBlock {
			continue
		}
		if first, twice := seen[it.Key]; twice {
			d.wrong(it, "%s is there twice; the first is on line %d", it.Key, first.Line)
		}
		seen[it.Key] = it.At
	}
}

// hurts refuses a key, or one in the block that it is, that this version does not have and that may not be ignored.
func (d *decoder) hurts(it hcl1.Item, path string) {
	items, isBlock := block(it.Value)
	if h, known := harmful[path]; known && (h.harmless == nil || !isBlock && fmt.Sprint(anyOf(it.Value)) != fmt.Sprint(h.harmless)) {
		d.wrong(it, "%s is not in this version: %s; leave it out", path, h.why)
	}
	if path == "keyring" {
		d.foreignKeys(it, items)
		return
	}
	for _, inner := range items {
		d.hurts(inner, path+"."+inner.Key)
	}
}

// foreignKeys rejects providers of root keys that this version does not have, unless they are inactive.
func (d *decoder) foreignKeys(it hcl1.Item, items []hcl1.Item) {
	named := map[string][]hcl1.Item{}
	if len(it.Labels) == 1 {
		named[it.Labels[0]] = items
	} else {
		for _, one := range items {
			named[one.Key], _ = block(one.Value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		inactive := slices.ContainsFunc(named[name], func(i hcl1.Item) bool { return i.Key == "active" && fmt.Sprint(anyOf(i.Value)) == "false" })
		if name != localKeys && !inactive {
			d.wrong(it, "keyring %q is not in this version: root keys would be wrapped by a local key file only; leave it out", name)
		}
	}
}

func (d *decoder) value(dst reflect.Value, it hcl1.Item, path string) {
	items, isBlock := block(it.Value)
	byLabel := dst.Kind() == reflect.Map && dst.Type().Elem().Kind() == reflect.Struct
	wantsBlock := dst.Kind() == reflect.Struct || dst.Kind() == reflect.Pointer || dst.Kind() == reflect.Map
	switch {
	case it.Value.Kind == hcl1.Null:
	case !byLabel && len(it.Labels) > 0:
		d.wrong(it, "%s takes no label such as %q", path, it.Labels[0])
	case wantsBlock && !isBlock:
		d.wrong(it, "%s must be a block", path)
	case dst.Kind() == reflect.Struct:
		d.body(dst, items, path)
	case dst.Kind() == reflect.Pointer: // a block that means something by being there
		if dst.IsNil() {
			dst.Set(reflect.New(dst.Type().Elem()))
		}
		d.body(dst.Elem(), items, path)
	case byLabel:
		d.named(dst, it, items, path)
	case dst.Kind() == reflect.Map:
		d.mapping(dst, items, path)
	case isBlock:
		d.wrong(it, "%s must be a value, not a block", path)
	default:
		if err := assign(dst, it.Value); err != nil {
			d.wrong(it, "%s: %v", path, err)
		}
	}
}

// named decodes a labelled block, or a JSON object whose keys are the labels.
func (d *decoder) named(dst reflect.Value, it hcl1.Item, items []hcl1.Item, path string) {
	if dst.IsNil() {
		dst.Set(reflect.MakeMap(dst.Type()))
	}
	switch len(it.Labels) {
	case 0:
	case 1:
		items = []hcl1.Item{{At: it.At, Key: it.Labels[0], Value: it.Value}}
	default:
		d.wrong(it, "%s needs one label", path)
		return
	}
	for _, one := range items {
		inner, isBlock := block(one.Value)
		if !isBlock {
			d.wrong(one, "%s %q must be a block", path, one.Key)
			continue
		}
		v := reflect.New(dst.Type().Elem()).Elem()
		if old := dst.MapIndex(reflect.ValueOf(one.Key)); old.IsValid() {
			v.Set(old)
		}
		d.body(v, inner, path)
		dst.SetMapIndex(reflect.ValueOf(one.Key), v)
	}
}

// mapping merges keys into a map of strings or of anything.
func (d *decoder) mapping(dst reflect.Value, items []hcl1.Item, path string) {
	if dst.IsNil() {
		dst.Set(reflect.MakeMap(dst.Type()))
	}
	d.twice(items)
	if dst.Type().Elem().Kind() == reflect.Interface {
		for key, v := range fieldsOf(items) {
			dst.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(&v).Elem())
		}
		return
	}
	for _, it := range items {
		v := reflect.New(dst.Type().Elem()).Elem()
		if err := assign(v, it.Value); err != nil {
			d.wrong(it, "%s.%s: %v", path, it.Key, err)
			continue
		}
		dst.SetMapIndex(reflect.ValueOf(it.Key), v)
	}
}

// assign converts a value to the kind of dst. Numbers and truth values may stand in quotes, and strings without where
// they are numbers or truth values.
func assign(dst reflect.Value, v hcl1.Value) error {
	if v.Kind == hcl1.Null {
		return nil
	}
	switch {
	case dst.Type() == durationType:
		return assignDuration(dst, v)
	case dst.Kind() == reflect.Slice:
		return assignStrings(dst, v)
	case dst.Kind() == reflect.String && v.Kind < hcl1.Null:
		dst.SetString(v.Text)
		return nil
	case dst.Kind() == reflect.String:
		return fmt.Errorf("a string is needed, not %s", v.Kind)
	case dst.Kind() == reflect.Bool:
		if v.Text != "true" && v.Text != "false" {
			return fmt.Errorf("true or false is needed")
		}
		dst.SetBool(v.Text == "true")
		return nil
	}
	n, ok := numberOf(v.Text)
	switch whole, isWhole := n.(int64); {
	case !ok || v.Kind > hcl1.Number:
		return fmt.Errorf("a number is needed")
	case dst.Kind() == reflect.Float64:
		dst.Set(reflect.ValueOf(n).Convert(dst.Type()))
	case !isWhole:
		return fmt.Errorf("a whole number is needed")
	default:
		dst.SetInt(whole)
	}
	return nil
}

// numberOf returns an int64 where the number is whole, else a float64.
func numberOf(text string) (n any, ok bool) {
	if i, err := strconv.ParseInt(text, 0, 64); err == nil {
		return i, true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, false
	}
	if whole := int64(f); float64(whole) == f && math.Abs(f) < 1<<53 {
		return whole, true
	}
	return f, true
}

// assignDuration takes texts such as "30s", and numbers of nanoseconds.
func assignDuration(dst reflect.Value, v hcl1.Value) error {
	if v.Kind == hcl1.Number {
		n, _ := numberOf(v.Text)
		whole, ok := n.(int64)
		if !ok {
			return fmt.Errorf("a whole number of nanoseconds is needed")
		}
		dst.SetInt(whole)
		return nil
	}
	if v.Kind != hcl1.String {
		return fmt.Errorf(`a duration such as "30s" is needed`)
	}
	t, err := time.ParseDuration(v.Text)
	if err != nil {
		return fmt.Errorf(`%q is not a duration such as "30s"`, v.Text)
	}
	dst.SetInt(int64(t))
	return nil
}

func assignStrings(dst reflect.Value, v hcl1.Value) error {
	list := []string{}
	for _, e := range v.List {
		if e.Kind >= hcl1.Null {
			return fmt.Errorf("a list of strings is needed")
		}
		list = append(list, e.Text)
	}
	if v.Kind != hcl1.List {
		return fmt.Errorf("a list of strings is needed")
	}
	dst.Set(reflect.ValueOf(list))
	return nil
}

// anyOf turns a value into plain Go values for drivers' configurations.
func anyOf(v hcl1.Value) any {
	if items, isBlock := block(v); isBlock {
		return fieldsOf(items)
	}
	switch v.Kind {
	case hcl1.List:
		var list []any
		for _, e := range v.List {
			list = append(list, anyOf(e))
		}
		return list
	case hcl1.Number:
		n, _ := numberOf(v.Text)
		return n
	case hcl1.Bool:
		return v.Text == "true"
	case hcl1.Null:
		return nil
	}
	return v.Text
}

// fieldsOf merges blocks of one key; a label is a key between.
func fieldsOf(items []hcl1.Item) map[string]any {
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
		v := anyOf(it.Value)
		if fields, isMap := v.(map[string]any); isMap {
			if old, isMap := into[key].(map[string]any); isMap {
				maps.Copy(old, fields)
				continue
			}
		}
		into[key] = v
	}
	return m
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
