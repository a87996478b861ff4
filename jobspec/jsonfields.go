package jobspec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// fieldsMax bounds the fields of a struct.
const fieldsMax = 64

// fields are those of a struct, by their JSON names and these in lower case: names are taken in any
// case, as encoding/json does. Blocks that others inside inherit from come first.
type fields struct {
	list  []key
	names map[string]int
}

// fieldsOf has the fields of all structs of requests and jobs.
var fieldsOf = addFields(addFields(map[reflect.Type]*fields{}, reflect.TypeFor[Request]()), reflect.TypeFor[api.Job]())

func addFields(all map[reflect.Type]*fields, t reflect.Type) map[reflect.Type]*fields {
	if t = elemStruct(t); t.Kind() != reflect.Struct || all[t] != nil {
		return all
	}
	all[t] = newFields(t)
	for i := range t.NumField() {
		addFields(all, t.Field(i).Type)
	}
	return all
}

func newFields(t reflect.Type) *fields {
	if t.NumField() > fieldsMax {
		panic(fmt.Sprintf("%v has more than %d fields", t, fieldsMax))
	}
	f := &fields{names: map[string]int{}}
	for i := range t.NumField() {
		name, kind, _ := strings.Cut(t.Field(i).Tag.Get("hcl"), ",")
		f.list = append(f.list, key{name, kind, i})
	}
	slices.SortStableFunc(f.list, func(a, b key) int { return inherited(b) - inherited(a) })
	for i, k := range f.list {
		sf := t.Field(k.index)
		name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		setDefault(&name, sf.Name)
		f.names[name], f.names[strings.ToLower(name)] = i, i
	}
	return f
}

// find is the place in the list of the field that a key of a text names.
func (f *fields) find(d *document, key int) (int, bool) {
	raw := d.raw(key)
	at, ok := f.names[string(raw[1:len(raw)-1])]
	if !ok {
		at, ok = f.names[strings.ToLower(d.str(key))]
	}
	return at, ok
}
