package jsonspec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec/bounds"
	"github.com/open-nomad/open-nomad/jobspec/defaults"
	"github.com/open-nomad/open-nomad/jobspec/fields"
)

func plainDecode(body []byte) (*api.Job, error) {
	if err := bounds.CheckJSON(body); err != nil {
		return nil, err
	}
	var head struct {
		Type string
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return nil, fault.New(fault.Invalid, "job: %w", err)
	}
	d := plainDecoder{jobType: head.Type}
	d.jobType = cmp.Or(d.jobType, api.JobTypeService)
	job := &api.Job{}
	d.Prefill(job, "job", d.jobType)
	if err := d.value(reflect.ValueOf(job).Elem(), body, "job"); err != nil {
		return nil, fault.Wrap(fault.Invalid, err)
	}
	return job, nil
}

// plainDecoder decodes jobs the plain way, one encoding/json call a value: the model of [decoder].
type plainDecoder struct {
	jobType string
	defaults.Surroundings
}

var nullJSON = []byte("null")

func (d *plainDecoder) value(dst reflect.Value, raw []byte, path string) error {
	if bytes.Equal(bytes.TrimSpace(raw), nullJSON) {
		return nil
	}
	t := dst.Type()
	switch {
	case t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct:
		item := reflect.New(t.Elem())
		d.Prefill(item.Interface(), plainBlock(path), d.jobType)
		if err := d.value(item.Elem(), raw, path); err != nil {
			return err
		}
		dst.Set(item)
		return nil
	case t.Kind() == reflect.Struct && t.PkgPath() != "time":
		return d.structure(dst, raw, path)
	case t.Kind() == reflect.Slice && fields.Elem(t).Kind() == reflect.Struct:
		return d.list(dst, raw, path)
	case t.Kind() == reflect.Map && fields.Elem(t).Kind() == reflect.Struct:
		return d.mapping(dst, raw, path)
	}
	if err := json.Unmarshal(raw, dst.Addr().Interface()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// plainBlock is the name of the block that a path stands for, where its defaults depend on it.
func plainBlock(path string) string {
	if strings.HasSuffix(strings.ToLower(path), ".scaling") {
		return defaults.ScalingBlock
	}
	return ""
}

func (d *plainDecoder) structure(dst reflect.Value, raw []byte, path string) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	inner := *d
	names := plainFields[dst.Type()]
	for _, blocks := range []bool{true, false} {
		for name, value := range members {
			f, ok := names[strings.ToLower(name)]
			if !ok || f.inherited != blocks {
				continue
			}
			if err := inner.value(dst.Field(f.index), value, path+"."+name); err != nil {
				return err
			}
		}
		inner.Inherit(dst)
	}
	defaults.Complete(dst.Addr().Interface())
	return nil
}

// field is where a JSON name goes. Blocks that others inside inherit from are read first.
type plainField struct {
	index     int
	inherited bool
}

// plainFields are the fields of all structs of a job.
var plainFields = addPlainFields(map[reflect.Type]map[string]plainField{}, reflect.TypeFor[api.Job]())

// addPlainFields adds the fields of a struct, and those of the structs in it, by their JSON names in lower case:
// names are taken in any case, as encoding/json does.
func addPlainFields(all map[reflect.Type]map[string]plainField, t reflect.Type) map[reflect.Type]map[string]plainField {
	for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, t.Kind()) {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || all[t] != nil {
		return all
	}
	names := map[string]plainField{}
	all[t] = names
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == "-" {
			continue
		}
		tag = cmp.Or(tag, f.Name)
		names[strings.ToLower(tag)] = plainField{i, f.Name == "RestartPolicy" || f.Name == "Update"}
		addPlainFields(all, f.Type)
	}
	return all
}

func (d *plainDecoder) list(dst reflect.Value, raw []byte, path string) error {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	list := reflect.MakeSlice(dst.Type(), 0, len(items))
	for i, item := range items {
		v := reflect.New(dst.Type().Elem()).Elem()
		if err := d.value(v, item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
		if v.Kind() == reflect.Pointer && v.IsNil() {
			return fmt.Errorf("%s[%d] is null", path, i)
		}
		list = reflect.Append(list, v)
	}
	dst.Set(list)
	return nil
}

func (d *plainDecoder) mapping(dst reflect.Value, raw []byte, path string) error {
	var items map[string]json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	m := reflect.MakeMap(dst.Type())
	for key, item := range items {
		v := reflect.New(dst.Type().Elem()).Elem()
		if err := d.value(v, item, path+"."+key); err != nil {
			return err
		}
		if v.Kind() == reflect.Pointer && v.IsNil() {
			return fmt.Errorf("%s.%s is null", path, key)
		}
		m.SetMapIndex(reflect.ValueOf(key), v)
	}
	dst.Set(m)
	return nil
}
