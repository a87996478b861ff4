// Package specfile reads the files and flags that describe objects of the API.
package specfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/jobspec/bounds"
	"github.com/open-nomad/open-nomad/jobspec/hcl1"
	"github.com/open-nomad/open-nomad/jobspec/tree"
)

// Read decodes a file over the struct that into points to; "-" is stdin. HCL has the keys of the hcl tags. JSON, which
// asJSON asks for and a leading brace shows, has the names of the API. Unknown keys are errors.
func Read(s *session.Session, path string, asJSON bool, into any) error {
	name, text, err := s.Source(path)
	if err != nil {
		return err
	}
	if err := bounds.CheckSize(name, len(text)); err != nil {
		return err
	}
	if asJSON || bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return JSON(name, text, into)
	}
	items, err := hcl1.Parse(name, text)
	if err != nil {
		return err
	}
	d := tree.Decoder{Path: name, Single: true}
	d.Decode(into, items, "")
	if len(d.Mistakes) > 0 {
		return fault.Wrap(fault.Invalid, errors.Join(d.Mistakes...))
	}
	return nil
}

// JSON decodes a text with the names of the API. Unknown keys are errors.
func JSON(name string, text []byte, into any) error {
	if err := json.Unmarshal(text, into); err != nil {
		return fault.New(fault.Invalid, "%s: %w", name, err)
	}
	var keys any
	if err := json.Unmarshal(text, &keys); err != nil {
		return fault.New(fault.Invalid, "%s: %w", name, err)
	}
	if key := unknown(keys, reflect.TypeOf(into)); key != "" {
		return fault.New(fault.Invalid, "%s: unknown key %q", name, key)
	}
	return nil
}

// unknown is the path of a key that no field of the type has, or "".
func unknown(v any, t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := v.(type) {
	case []any:
		if t.Kind() != reflect.Slice {
			return ""
		}
		for _, e := range v {
			if key := unknown(e, t.Elem()); key != "" {
				return key
			}
		}
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return ""
		}
		fields := reflect.VisibleFields(t)
		for key, inner := range v {
			i := slices.IndexFunc(fields, func(f reflect.StructField) bool { return strings.EqualFold(f.Name, key) })
			if i < 0 {
				return key
			}
			if below := unknown(inner, fields[i].Type); below != "" {
				return key + "." + below
			}
		}
	}
	return ""
}
