package jsonspec

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec/fields"
)

// fieldsMax bounds the fields of a struct.
const fieldsMax = 64

// known are the fields of a struct, by their JSON names and these in lower case: names are taken in any
// case, as encoding/json does. Blocks that others inside inherit from come first.
type known struct {
	list  []fields.Field
	names map[string]int
}

// fieldsOf has the fields of all structs of requests and jobs.
var fieldsOf = addFields(addFields(map[reflect.Type]*known{}, reflect.TypeFor[Request]()), reflect.TypeFor[api.Job]())

func addFields(all map[reflect.Type]*known, t reflect.Type) map[reflect.Type]*known {
	if t = fields.Elem(t); t.Kind() != reflect.Struct || all[t] != nil {
		return all
	}
	all[t] = newFields(t)
	for i := range t.NumField() {
		addFields(all, t.Field(i).Type)
	}
	return all
}

func newFields(t reflect.Type) *known {
	if t.NumField() > fieldsMax {
		panic(fmt.Sprintf("%v has more than %d fields", t, fieldsMax))
	}
	f := &known{list: fields.All(t), names: map[string]int{}}
	for i, k := range f.list {
		sf := t.Field(k.Index)
		name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		name = cmp.Or(name, sf.Name)
		f.names[name], f.names[strings.ToLower(name)] = i, i
	}
	return f
}

// find is the place in the list of the field that a key of a text names.
func (f *known) find(d *document, key int) (int, bool) {
	raw := d.raw(key)
	at, ok := f.names[string(raw[1:len(raw)-1])]
	if !ok {
		at, ok = f.names[strings.ToLower(d.str(key))]
	}
	return at, ok
}
