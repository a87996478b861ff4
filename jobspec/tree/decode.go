package tree

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// Decoder decodes the items of a file over a struct by its hcl tags and collects all mistakes.
type Decoder struct {
	Path string
	// Values assign the values of keys, by path, that need more than the type of their field.
	Values map[string]func(dst reflect.Value, v Value) error
	// Ignored are keys of the file without a field.
	Ignored []string
	// Unknown decides on keys without a field; false makes them mistakes.
	Unknown func(it Item, path string) bool
	// Single refuses a second block for a field that holds one. Otherwise the blocks are merged.
	Single bool
	// Mistakes are all that were found, each an [*Error].
	Mistakes []error
}

// Mistake adds one.
func (d *Decoder) Mistake(at Place, format string, args ...any) {
	d.Mistakes = append(d.Mistakes, &Error{Path: d.Path, At: at, Reason: fmt.Sprintf(format, args...)})
}

// Decode decodes items over the struct that into points to. path names the block in mistakes.
func (d *Decoder) Decode(into any, items []Item, path string) {
	d.body(reflect.ValueOf(into).Elem(), items, path)
}

// Block returns the items of a block. In JSON a block may be a list of one or several.
func (v Value) Block() (items []Item, ok bool) {
	if v.Kind != List {
		return v.Items, v.Kind == Block
	}
	for _, e := range v.List {
		if e.Kind != Block {
			return nil, false
		}
		items = append(items, e.Items...)
	}
	return items, len(v.List) > 0
}

func (d *Decoder) body(dst reflect.Value, items []Item, path string) {
	byKey := map[string]int{}
	for i := range dst.NumField() {
		if tag, _, _ := strings.Cut(dst.Type().Field(i).Tag.Get("hcl"), ","); tag != "" {
			byKey[tag] = i
		}
	}
	d.twice(items, func(key string) bool {
		i, ok := byKey[key]
		return d.Single && ok && !isList(dst.Field(i)) && dst.Field(i).Kind() != reflect.Map
	})
	for _, it := range items {
		full := strings.TrimPrefix(path+"."+it.Key, ".")
		if i, ok := byKey[it.Key]; ok {
			d.value(dst.Field(i), it, full)
		} else if !slices.Contains(d.Ignored, full) && (d.Unknown == nil || !d.Unknown(it, full)) {
			known := append(slices.Collect(maps.Keys(byKey)), d.Ignored...)
			d.Mistake(it.At, "unknown key %q%s", full, Suggestion(it.Key, known))
		}
	}
}

// isList reports whether a field holds any number of blocks.
func isList(field reflect.Value) bool {
	return field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Pointer
}

// twice refuses values that are given twice, and blocks of keys that take one.
func (d *Decoder) twice(items []Item, single func(key string) bool) {
	seen := map[string]Place{}
	for _, it := range items {
		if _, isBlock := it.Value.Block(); isBlock && !single(it.Key) {
			continue
		}
		if first, twice := seen[it.Key]; twice {
			d.Mistake(it.At, "%s is defined twice; the first is on line %d", it.Key, first.Line)
		}
		seen[it.Key] = it.At
	}
}

func (d *Decoder) value(dst reflect.Value, it Item, path string) {
	items, isBlock := it.Value.Block()
	byLabel := dst.Kind() == reflect.Map && dst.Type().Elem().Kind() == reflect.Struct
	optional := dst.Kind() == reflect.Pointer && dst.Type().Elem().Kind() == reflect.Struct
	labelled := isList(dst) && label(dst.Type().Elem().Elem()) >= 0
	wantsBlock := dst.Kind() == reflect.Struct || optional || dst.Kind() == reflect.Map || isList(dst)
	assign := d.Values[path]
	switch {
	case it.Value.Kind == Null:
	case labelled && len(it.Labels) != 1:
		d.Mistake(it.At, "%s needs one label", path)
	case !byLabel && !labelled && len(it.Labels) > 0:
		d.Mistake(it.At, "%s takes no label such as %q", path, it.Labels[0])
	case assign == nil && wantsBlock && !isBlock:
		d.Mistake(it.Value.At, "%s must be a block, not %s", path, it.Value.Kind)
	case assign == nil && dst.Kind() == reflect.Struct:
		d.body(dst, items, path)
	case assign == nil && optional: // a block that means something by being there
		if dst.IsNil() {
			dst.Set(reflect.New(dst.Type().Elem()))
		}
		d.body(dst.Elem(), items, path)
	case assign == nil && isList(dst):
		d.list(dst, it, path)
	case byLabel:
		d.named(dst, it, items, path)
	case assign == nil && dst.Kind() == reflect.Map:
		d.mapping(dst, items, path)
	case assign == nil && isBlock:
		d.Mistake(it.At, "%s must be a value, not a block", path)
	default:
		if assign == nil {
			assign = Assign
		}
		if err := assign(dst, it.Value); err != nil {
			d.Mistake(it.Value.At, "%s: %v", path, err)
		}
	}
}

// label is the index of the field that takes the label of a struct's block, or -1.
func label(t reflect.Type) int {
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("hcl") == ",label" {
			return i
		}
	}
	return -1
}

// list decodes each of the blocks of a key into an element.
func (d *Decoder) list(dst reflect.Value, it Item, path string) {
	blocks := it.Value.List
	if it.Value.Kind == Block {
		blocks = []Value{it.Value}
	}
	for _, b := range blocks {
		e := reflect.New(dst.Type().Elem().Elem())
		if i := label(e.Elem().Type()); i >= 0 {
			e.Elem().Field(i).SetString(it.Labels[0])
		}
		d.body(e.Elem(), b.Items, path)
		dst.Set(reflect.Append(dst, e))
	}
}

// named decodes a labelled block, or a JSON object whose keys are the labels.
func (d *Decoder) named(dst reflect.Value, it Item, items []Item, path string) {
	if dst.IsNil() {
		dst.Set(reflect.MakeMap(dst.Type()))
	}
	switch len(it.Labels) {
	case 0:
	case 1:
		items = []Item{{At: it.At, Key: it.Labels[0], Value: it.Value}}
	default:
		d.Mistake(it.At, "%s needs one label", path)
		return
	}
	for _, one := range items {
		inner, isBlock := one.Value.Block()
		if !isBlock {
			d.Mistake(one.At, "%s %q must be a block", path, one.Key)
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
func (d *Decoder) mapping(dst reflect.Value, items []Item, path string) {
	if dst.IsNil() {
		dst.Set(reflect.MakeMap(dst.Type()))
	}
	d.twice(items, func(string) bool { return false })
	if dst.Type().Elem().Kind() == reflect.Interface {
		for key, v := range merged(items) {
			dst.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(&v).Elem())
		}
		return
	}
	for _, it := range items {
		v := reflect.New(dst.Type().Elem()).Elem()
		if err := Assign(v, it.Value); err != nil {
			d.Mistake(it.Value.At, "%s.%s: %v", path, it.Key, err)
			continue
		}
		dst.SetMapIndex(reflect.ValueOf(it.Key), v)
	}
}

// Suggestion names the known word that is nearest to an unknown one, as the end of an error text; it is empty when none is near.
func Suggestion(key string, known []string) string {
	slices.Sort(known)
	for _, k := range known {
		if far := len(key) - len(k); far <= 8 && far >= -2 && levenshtein.Distance(key, k, nil) <= 2 { // a rune has up to 4 bytes
			return fmt.Sprintf("; did you mean %q?", k)
		}
	}
	for _, k := range known {
		if strings.Contains(k, key) || strings.ReplaceAll(k, "_", "") == strings.ToLower(key) {
			return fmt.Sprintf("; did you mean %q?", k)
		}
	}
	return ""
}
