package driver

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

// DecodeConfig decodes a task's config block into the struct that out points to. Fields are named by the
// tag `config:"name"`, or `config:"name,required"`; kinds are string, bool, integers, float64,
// time.Duration, []string, map[string]string, structs (a block that is given at most once) and lists of structs (a
// block that may be repeated). Values convert as they do in job files: numbers and
// booleans to and from their text, a list of blocks to one map. A field that is not set keeps its value. The error, of
// class fault.Invalid, names every unknown, missing or ill-typed key; those in blocks as "block.key".
func DecodeConfig(driver string, config map[string]any, out any) error {
	errs := decodeBlock("", config, reflect.ValueOf(out).Elem())
	if len(errs) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "config of driver %s: %w", driver, errors.Join(errs...))
}

func decodeBlock(prefix string, config map[string]any, v reflect.Value) (errs []error) {
	known := make(map[string]bool, v.NumField())
	for i := range v.NumField() {
		name, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("config"), ",")
		if name == "" {
			continue
		}
		known[name] = true
		value, set := config[name]
		switch {
		case !set || value == nil:
			if option == "required" {
				errs = append(errs, fmt.Errorf("%q is required", prefix+name))
			}
		case isBlock(v.Field(i).Type()):
			errs = append(errs, assignBlocks(prefix+name, v.Field(i), value)...)
		default:
			if err := assign(v.Field(i), value); err != nil {
				errs = append(errs, fmt.Errorf("%q %w", prefix+name, err))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(config)) {
		if !known[name] {
			errs = append(errs, fmt.Errorf("%q is not known", prefix+name))
		}
	}
	return errs
}

// isBlock reports whether a field holds a block, or a list of blocks.
func isBlock(t reflect.Type) bool {
	return t.Kind() == reflect.Struct || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

// assignBlocks takes a map, or the list of maps that blocks decode to.
func assignBlocks(name string, field reflect.Value, value any) (errs []error) {
	var blocks []map[string]any
	switch list := value.(type) {
	case map[string]any:
		blocks = append(blocks, list)
	case []map[string]any:
		blocks = list
	case []any:
		for _, item := range list {
			block, ok := item.(map[string]any)
			if !ok {
				return []error{fmt.Errorf("%q must be a block, not %s", name, kindOf(item))}
			}
			blocks = append(blocks, block)
		}
	default:
		return []error{fmt.Errorf("%q must be a block, not %s", name, kindOf(value))}
	}
	if field.Kind() == reflect.Struct {
		if len(blocks) > 1 {
			return []error{fmt.Errorf("%q may be given once", name)}
		}
		for _, block := range blocks {
			errs = decodeBlock(name+".", block, field)
		}
		return errs
	}
	out := reflect.MakeSlice(field.Type(), len(blocks), len(blocks))
	for i, block := range blocks {
		errs = append(errs, decodeBlock(name+".", block, out.Index(i))...)
	}
	field.Set(out)
	return errs
}

func assign(field reflect.Value, value any) error {
	if field.Type() == reflect.TypeFor[time.Duration]() {
		return assignDuration(field, value)
	}
	switch field.Kind() {
	case reflect.String:
		return assignString(field, value)
	case reflect.Bool:
		return assignBool(field, value)
	case reflect.Int, reflect.Int32, reflect.Int64:
		return assignInt(field, value)
	case reflect.Float64:
		return assignFloat(field, value)
	case reflect.Slice:
		return assignList(field, value)
	case reflect.Map:
		return assignMap(field, value)
	}
	return fmt.Errorf("has an unsupported kind %s", field.Kind())
}

func assignString(field reflect.Value, value any) error {
	s, ok := text(value)
	if !ok {
		return fmt.Errorf("must be a string, not %s", kindOf(value))
	}
	field.SetString(s)
	return nil
}

func assignBool(field reflect.Value, value any) error {
	switch b := value.(type) {
	case bool:
		field.SetBool(b)
		return nil
	case string:
		if b == "true" || b == "false" {
			field.SetBool(b == "true")
			return nil
		}
	}
	return fmt.Errorf("must be true or false, not %s", kindOf(value))
}

func assignInt(field reflect.Value, value any) error {
	n, ok := number(value)
	if !ok || n != math.Trunc(n) || math.Abs(n) >= 1<<53 || field.OverflowInt(int64(n)) {
		return fmt.Errorf("must be a whole number, not %s", kindOf(value))
	}
	field.SetInt(int64(n))
	return nil
}

func assignFloat(field reflect.Value, value any) error {
	n, ok := number(value)
	if !ok {
		return fmt.Errorf("must be a number, not %s", kindOf(value))
	}
	field.SetFloat(n)
	return nil
}

// assignDuration takes "5s", or a number of seconds.
func assignDuration(field reflect.Value, value any) error {
	if s, ok := value.(string); ok {
		d, err := time.ParseDuration(s)
		if err == nil {
			field.SetInt(int64(d))
			return nil
		}
	}
	n, ok := number(value)
	if !ok || math.Abs(n) > math.MaxInt64/float64(2*time.Second) {
		return fmt.Errorf("must be a duration such as %q, not %s", "5s", kindOf(value))
	}
	field.SetInt(int64(n * float64(time.Second)))
	return nil
}

func assignList(field reflect.Value, value any) error {
	if s, ok := value.([]string); ok {
		field.Set(reflect.ValueOf(slices.Clone(s)))
		return nil
	}
	items, ok := value.([]any)
	if !ok {
		return fmt.Errorf("must be a list of strings, not %s", kindOf(value))
	}
	list := make([]string, 0, len(items))
	for i, item := range items {
		s, ok := text(item)
		if !ok {
			return fmt.Errorf("must be a list of strings, item %d is %s", i, kindOf(item))
		}
		list = append(list, s)
	}
	field.Set(reflect.ValueOf(list))
	return nil
}

// assignMap takes a map, or the list of maps that repeated blocks decode to; later ones win.
func assignMap(field reflect.Value, value any) error {
	out := map[string]string{}
	blocks := []any{value}
	switch list := value.(type) {
	case []any:
		blocks = list
	case []map[string]any:
		blocks = blocks[:0]
		for _, m := range list {
			blocks = append(blocks, m)
		}
	}
	for _, block := range blocks {
		switch m := block.(type) {
		case map[string]string:
			maps.Copy(out, m)
		case map[string]any:
			for k, v := range m {
				s, ok := text(v)
				if !ok {
					return fmt.Errorf("must hold strings, %q is %s", k, kindOf(v))
				}
				out[k] = s
			}
		default:
			return fmt.Errorf("must be a map, not %s", kindOf(block))
		}
	}
	field.Set(reflect.ValueOf(out))
	return nil
}

func text(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	case int, int64, int32, uint64, uint, uint32:
		return fmt.Sprint(v), true
	}
	return "", false
}

func number(value any) (float64, bool) {
	switch v := value.(type) {
	case string:
		n, err := strconv.ParseFloat(v, 64)
		return n, err == nil && !math.IsNaN(n)
	case float64:
		return v, !math.IsNaN(v)
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case int32:
		return float64(v), true
	case uint64:
		return float64(v), true
	}
	return 0, false
}

func kindOf(value any) string {
	switch v := value.(type) {
	case string:
		return strconv.Quote(v)
	case bool:
		return "a boolean"
	case []any, []string, []map[string]any:
		return "a list"
	case map[string]any, map[string]string:
		return "a map"
	case nil:
		return "null"
	}
	if _, ok := number(value); ok {
		return "a number"
	}
	return fmt.Sprintf("a %T", value)
}
