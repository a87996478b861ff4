package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/lazy"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

const (
	depthMax      = 8
	attributesMax = 512
)

// kinds are the Go types of values that are no blocks.
var kinds = map[Type]reflect.Type{
	Type_TYPE_STRING: reflect.TypeFor[string](), Type_TYPE_BOOL: reflect.TypeFor[bool](), Type_TYPE_INT: reflect.TypeFor[int64](),
	Type_TYPE_FLOAT: reflect.TypeFor[float64](), Type_TYPE_DURATION: reflect.TypeFor[time.Duration](),
	Type_TYPE_LIST_OF_STRING: reflect.TypeFor[[]string](), Type_TYPE_MAP_OF_STRING: reflect.TypeFor[map[string]string](),
}

var keyName = lazy.Regexp(`^[a-zA-Z][a-zA-Z0-9_]{0,127}$`)

// Check returns an error for a schema that a plugin must not send.
func Check(s *Schema) error {
	left := attributesMax
	return check(s, depthMax, &left)
}

func check(s *Schema, depth int, left *int) error {
	if depth == 0 {
		return fault.New(fault.Invalid, "its schema is nested deeper than %d", depthMax)
	}
	seen := map[string]bool{}
	for _, a := range s.GetAttributes() {
		if *left--; *left < 0 {
			return fault.New(fault.Invalid, "its schema has more than %d attributes", attributesMax)
		}
		isBlock := a.GetType() == Type_TYPE_BLOCK || a.GetType() == Type_TYPE_BLOCKS
		switch {
		case !keyName().MatchString(a.GetName()) || seen[a.GetName()]:
			return fault.New(fault.Invalid, "its schema has an attribute %.64q, which is no name or occurs twice", a.GetName())
		case !isBlock && kinds[a.GetType()] == nil:
			return fault.New(fault.Invalid, "its schema has an unknown type %d of %s", a.GetType(), a.GetName())
		}
		seen[a.GetName()] = true
		if isBlock {
			if err := check(a.GetBlock(), depth-1, left); err != nil {
				return err
			}
		}
	}
	return nil
}

// Decode checks a config block against the schema of a driver and returns the keys that are set, with values of the types
// that the schema defines. Values convert as [driver.DecodeConfig] converts them. The error names every wrong key.
func Decode(name string, s *Schema, config map[string]any) (map[string]any, error) {
	out, errs := decodeBlock(name, "", s, config)
	return out, errors.Join(errs...)
}

func decodeBlock(name, prefix string, s *Schema, config map[string]any) (out map[string]any, errs []error) {
	out = map[string]any{}
	known := map[string]bool{}
	for _, a := range s.GetAttributes() {
		key := prefix + a.GetName()
		known[a.GetName()] = true
		value := config[a.GetName()]
		switch {
		case value == nil:
			if a.GetRequired() {
				errs = append(errs, invalid(name, "%q is required", key))
			}
		case a.GetType() == Type_TYPE_BLOCK || a.GetType() == Type_TYPE_BLOCKS:
			blocks, wrong := decodeBlocks(name, key, a, value)
			if errs = append(errs, wrong...); a.GetType() == Type_TYPE_BLOCKS {
				out[a.GetName()] = blocks
			} else if len(blocks) > 0 {
				out[a.GetName()] = blocks[0]
			}
		default:
			field := reflect.New(reflect.StructOf([]reflect.StructField{{
				Name: "V", Type: kinds[a.GetType()], Tag: reflect.StructTag(fmt.Sprintf("config:%q", key)),
			}}))
			if err := driver.DecodeConfig(name, map[string]any{key: value}, field.Interface()); err != nil {
				errs = append(errs, err)
				continue
			}
			out[a.GetName()] = field.Elem().Field(0).Interface()
			if d, ok := out[a.GetName()].(time.Duration); ok {
				out[a.GetName()] = d.String()
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if !known[key] {
			errs = append(errs, invalid(name, "%q is not known", prefix+key))
		}
	}
	return out, errs
}

func decodeBlocks(name, key string, a *Attribute, value any) (out []any, errs []error) {
	var list []any
	switch v := value.(type) {
	case []map[string]any:
		for _, block := range v {
			list = append(list, block)
		}
	case []any:
		list = v
	default:
		list = []any{v}
	}
	if a.GetType() == Type_TYPE_BLOCK && len(list) > 1 {
		return nil, []error{invalid(name, "%q may be given once", key)}
	}
	for _, item := range list {
		block, ok := item.(map[string]any)
		if !ok {
			return nil, append(errs, invalid(name, "%q must be a block", key))
		}
		one, wrong := decodeBlock(name, key+".", a.GetBlock(), block)
		out, errs = append(out, one), append(errs, wrong...)
	}
	return out, errs
}

func invalid(name, format string, args ...any) error {
	return fault.New(fault.Invalid, "config of driver "+name+": "+format, args...)
}

// Of describes the struct that a driver passes to [driver.DecodeConfig]; nil is a block without keys. It panics for a
// kind that DecodeConfig does not take.
func Of(config any) *Schema {
	if config == nil {
		return &Schema{}
	}
	return of(reflect.TypeOf(config))
}

func of(t reflect.Type) *Schema {
	s := &Schema{}
	for i := range t.NumField() {
		name, option, _ := strings.Cut(t.Field(i).Tag.Get("config"), ",")
		if name == "" {
			continue
		}
		a := &Attribute{Name: name, Required: option == "required"}
		a.Type, a.Block = typeOf(t.Field(i).Type)
		s.Attributes = append(s.Attributes, a)
	}
	return s
}

func typeOf(t reflect.Type) (Type, *Schema) {
	for kind, known := range kinds {
		if t == known {
			return kind, nil
		}
	}
	switch {
	case t.Kind() == reflect.Int || t.Kind() == reflect.Int32:
		return Type_TYPE_INT, nil
	case t.Kind() == reflect.Struct:
		return Type_TYPE_BLOCK, of(t)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return Type_TYPE_BLOCKS, of(t.Elem())
	}
	panic(fmt.Sprintf("a config has no field of kind %s", t))
}

// Config reads a config block; no bytes are an empty one.
func Config(b []byte) (out map[string]any, err error) {
	if len(b) == 0 {
		return map[string]any{}, nil
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("config block: %w", err)
	}
	return out, nil
}
