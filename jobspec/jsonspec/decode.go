package jsonspec

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec/bounds"
	"github.com/open-nomad/open-nomad/jobspec/defaults"
)

// Decode decodes a job over the defaults of its type; null leaves the default. Texts that are too large or nested too
// deeply are refused before anything is built from them. Of members with the same name the last one counts. Errors are of
// the class [fault.Invalid], or [fault.TooLarge] beyond [bounds.JSONMax], and name the path in the job.
func Decode(body []byte) (*api.Job, error) {
	if err := bounds.CheckJSONSize(len(body)); err != nil {
		return nil, err
	}
	doc, err := read(body, bounds.DepthMax)
	if err != nil {
		return nil, fault.New(fault.Invalid, "job: %w", err)
	}
	return jobAt(doc, 0)
}

// Request is what programs send with a job.
type Request struct {
	// Job is nil when there is none.
	Job               *api.Job `json:"-"`
	Submission        *api.JobSubmission
	EnforceIndex      bool
	JobModifyIndex    uint64
	PreserveCounts    bool
	PreserveResources bool
	PolicyOverride    bool
	EvalPriority      int
	Diff              bool
	Region            string
	Namespace         string
}

// DecodeRequest decodes a request, and the job in it as [Decode] does. The caller bounds its size.
func DecodeRequest(body []byte) (*Request, error) {
	doc, err := read(body, bounds.DepthMax+1)
	if err != nil {
		return nil, fault.New(fault.Invalid, "decode request body: %w", err)
	}
	r := &Request{}
	left := bounds.EntriesMax
	d := decoder{document: doc, left: &left}
	if err := d.value(reflect.ValueOf(r).Elem(), 0, ""); err != nil {
		return nil, fault.New(fault.Invalid, "decode request body%w", err)
	}
	job := doc.member(0, "Job")
	if job < 0 || doc.kind(job) == 'n' {
		return r, nil
	}
	if err := bounds.CheckJSONSize(len(doc.raw(job))); err != nil {
		return nil, err
	}
	r.Job, err = jobAt(doc, job)
	return r, err
}

func jobAt(doc *document, at int) (*api.Job, error) {
	left := bounds.EntriesMax
	d := decoder{document: doc, jobType: api.JobTypeService, left: &left}
	if doc.kind(at) == '{' {
		if i := doc.member(at, "Type"); i >= 0 && doc.kind(i) == '"' {
			d.jobType = doc.str(i)
		}
		if err := checkGroups(doc, at); err != nil {
			return nil, err
		}
	}
	d.jobType = cmp.Or(d.jobType, api.JobTypeService)
	job := &api.Job{}
	defaults.Surroundings{}.Prefill(job, "job", d.jobType)
	if err := d.value(reflect.ValueOf(job).Elem(), at, ""); err != nil {
		return nil, fault.New(fault.Invalid, "job%w", err)
	}
	return job, nil
}

// checkGroups refuses too many groups or tasks before anything is built from them.
func checkGroups(doc *document, job int) error {
	groups := doc.list(job, "TaskGroups")
	if n := len(groups); n > bounds.GroupsMax {
		return fault.New(fault.Invalid, "job has %d groups, the limit is %d", n, bounds.GroupsMax)
	}
	tasks := 0
	for _, g := range groups {
		tasks += len(doc.list(g, "Tasks"))
	}
	if tasks > bounds.TasksMax {
		return fault.New(fault.Invalid, "job has %d tasks, the limit is %d", tasks, bounds.TasksMax)
	}
	return nil
}

// list are the values of the list that an object has under a name.
func (d *document) list(object int, name string) []int {
	if d.kind(object) != '{' {
		return nil
	}
	at := d.member(object, name)
	if at < 0 || d.kind(at) != '[' {
		return nil
	}
	return slices.Collect(d.items(at))
}

// decoder decodes structs over the defaults that the HCL reader uses too. Its errors begin with
// where in the struct they are.
type decoder struct {
	*document
	jobType string
	// left is how many more entries lists and maps may have.
	left *int
	defaults.Surroundings
}

// value decodes value i; block is its name in files, where defaults depend on it.
func (d *decoder) value(dst reflect.Value, i int, block string) error {
	c := d.kind(i)
	switch kind := dst.Kind(); {
	case c == 'n':
		return nil
	case kind == reflect.Pointer:
		item := reflect.New(dst.Type().Elem())
		d.Prefill(item.Interface(), block, d.jobType)
		dst.Set(item)
		return d.value(item.Elem(), i, block)
	case kind == reflect.Struct && c == '{':
		return d.structure(dst, i)
	case kind == reflect.Slice && c == '[':
		return d.list(dst, i)
	case kind == reflect.Map && c == '{':
		return d.mapping(dst, i)
	case d.scalar(dst, i):
		return nil
	}
	// What is left are rare kinds and mistakes.
	if err := json.Unmarshal(d.raw(i), dst.Addr().Interface()); err != nil {
		return fmt.Errorf(": %w", err)
	}
	return nil
}

// scalar decodes a value whose kind is common; false leaves it to others.
func (d *decoder) scalar(dst reflect.Value, i int) bool {
	c := d.kind(i)
	number := c == '-' || '0' <= c && c <= '9'
	switch kind := dst.Kind(); {
	case kind == reflect.String && c == '"':
		dst.SetString(d.str(i))
		return true
	case kind == reflect.Bool && (c == 't' || c == 'f'):
		dst.SetBool(c == 't')
		return true
	case dst.CanInt() && number:
		n, err := strconv.ParseInt(string(d.raw(i)), 10, 64)
		ok := err == nil && !dst.OverflowInt(n)
		if ok {
			dst.SetInt(n)
		}
		return ok
	case dst.CanUint() && number:
		n, err := strconv.ParseUint(string(d.raw(i)), 10, 64)
		ok := err == nil && !dst.OverflowUint(n)
		if ok {
			dst.SetUint(n)
		}
		return ok
	case kind == reflect.Interface:
		v, ok := d.free(i)
		if ok {
			dst.Set(reflect.ValueOf(v))
		}
		return ok
	}
	return false
}

// free is a value without a schema; false when a number is out of range.
func (d *decoder) free(i int) (any, bool) {
	switch d.kind(i) {
	case 'n':
		return nil, true
	case 't', 'f':
		return d.kind(i) == 't', true
	case '"':
		return d.str(i), true
	case '[':
		all := []any{}
		for at := range d.items(i) {
			v, ok := d.free(at)
			if !ok {
				return nil, false
			}
			all = append(all, v)
		}
		return all, true
	case '{':
		all := map[string]any{}
		for key := range d.members(i) {
			v, ok := d.free(key + 1)
			if !ok {
				return nil, false
			}
			all[d.str(key)] = v
		}
		return all, true
	}
	n, err := strconv.ParseFloat(string(d.raw(i)), 64)
	return n, err == nil
}

// structure decodes an object over what dst holds: first the blocks that others inside inherit from,
// wherever they stand in the text.
func (d *decoder) structure(dst reflect.Value, i int) error {
	known := fieldsOf[dst.Type()]
	var keys [fieldsMax]int32 // of each field, the last one; 0 is none
	for key := range d.members(i) {
		if f, ok := known.find(d.document, key); ok {
			keys[f] = int32(key)
		}
	}
	inner := *d
	for at, f := range known.list {
		key := int(keys[at])
		if key == 0 {
			continue
		}
		if err := inner.value(dst.Field(f.Index), key+1, f.Name); err != nil {
			return fmt.Errorf(".%s%w", d.str(key), err)
		}
		inner.Inherit(dst)
	}
	defaults.Complete(dst.Addr().Interface())
	if j, ok := dst.Addr().Interface().(*api.Job); ok {
		return d.handDown(j, i)
	}
	return nil
}

func (d *decoder) list(dst reflect.Value, i int) error {
	n := 0
	for range d.items(i) {
		n++
	}
	if err := d.take(n); err != nil {
		return err
	}
	dst.Set(reflect.MakeSlice(dst.Type(), n, n))
	n = 0
	for item := range d.items(i) {
		if err := d.item(dst.Index(n), item); err != nil {
			return fmt.Errorf("[%d]%w", n, err)
		}
		n++
	}
	return nil
}

// take refuses more entries than a job may have, before room is made for them.
func (d *decoder) take(n int) error {
	if *d.left -= n; *d.left < 0 {
		return fmt.Errorf(": more than %d entries in lists and maps", bounds.EntriesMax)
	}
	return nil
}

func (d *decoder) mapping(dst reflect.Value, i int) error {
	m := reflect.MakeMap(dst.Type())
	dst.Set(m)
	v := reflect.New(dst.Type().Elem()).Elem()
	for key := range d.members(i) {
		if err := d.take(1); err != nil {
			return err
		}
		v.SetZero()
		name := d.str(key)
		if err := d.item(v, key+1); err != nil {
			return fmt.Errorf(".%s%w", name, err)
		}
		m.SetMapIndex(reflect.ValueOf(name), v)
	}
	return nil
}

var errNull = errors.New(" is null")

// item decodes a value of a list or a map.
func (d *decoder) item(dst reflect.Value, i int) error {
	if dst.Kind() == reflect.Pointer && d.kind(i) == 'n' {
		return errNull
	}
	return d.value(dst, i, "")
}
