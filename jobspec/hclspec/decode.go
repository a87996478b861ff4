package hclspec

import (
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec/defaults"
	"github.com/open-nomad/open-nomad/jobspec/expr"
	"github.com/open-nomad/open-nomad/jobspec/fields"
)

var durationType = reflect.TypeFor[time.Duration]()

// decoder decodes bodies over structs by their hcl tags and collects all that is wrong.
type decoder struct {
	scope   *hcl.EvalContext
	jobType string
	diags   hcl.Diagnostics
	// texts are the blocks as written, by the offset where they begin.
	texts map[int]*hclsyntax.Body
	set   *Presence
	defaults.Surroundings
}

// isMap reports whether a block is free-form: its keys are data.
func isMap(t reflect.Type) bool {
	if t.Kind() != reflect.Map {
		return false
	}
	switch t.Elem().Kind() {
	case reflect.String, reflect.Interface, reflect.Slice:
		return true
	}
	return false
}

func labelsOf(t reflect.Type) []string {
	var names []string
	for _, k := range fields.Tagged(t) {
		if k.Kind == "label" {
			names = append(names, "name")
		}
	}
	return names
}

// schemaOf is what a struct's body may hold, the special keys of its type included.
func schemaOf(t reflect.Type) *hcl.BodySchema {
	s := &hcl.BodySchema{}
	for _, k := range fields.Tagged(t) {
		switch {
		case k.Kind == "label":
		case k.Kind == "block" && isMap(t.Field(k.Index).Type):
			s.Blocks = append(s.Blocks, hcl.BlockHeaderSchema{Type: k.Name})
			if t.Field(k.Index).Type.Elem().Kind() != reflect.Interface {
				s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: k.Name})
			}
		case k.Kind == "block":
			s.Blocks = append(s.Blocks, hcl.BlockHeaderSchema{Type: k.Name, LabelNames: labelsOf(fields.Elem(t.Field(k.Index).Type))})
		default:
			s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: k.Name, Required: k.Kind == ""})
		}
	}
	return special(t, s)
}

// content splits a body by a schema, the blocks and attributes that share a name by what is there.
func (d *decoder) content(body hcl.Body, s *hcl.BodySchema) *hcl.BodyContent {
	c, diags := body.Content(s)
	d.diags = append(d.diags, diags...)
	return c
}

// structure decodes a body over dst, which holds the defaults already.
func (d *decoder) structure(dst reflect.Value, body hcl.Body, labels []string) {
	t := dst.Type()
	c := d.content(body, schemaOf(t))
	d.set.add(dst.Addr().Interface())
	defer func(around defaults.Surroundings) { d.Surroundings = around }(d.Surroundings)
	for _, k := range fields.Tagged(t) {
		field := dst.Field(k.Index)
		switch {
		case k.Kind == "label":
			if len(labels) > 0 {
				field.SetString(labels[0])
				d.set.note(dst.Addr().Interface(), k.Index)
				labels = labels[1:]
			}
		case k.Kind == "block" && isMap(field.Type()):
			d.mapping(field, k.Name, c)
		case k.Kind == "block":
			d.blocks(field, c.Blocks.OfType(k.Name), k.Name)
			d.Inherit(dst)
		default:
			if a := c.Attributes[k.Name]; a != nil && d.attribute(field, a) {
				d.set.note(dst.Addr().Interface(), k.Index)
			}
		}
	}
	d.finish(dst, c)
}

// blocks decodes the blocks of one name into a pointer, slice or map.
func (d *decoder) blocks(field reflect.Value, blocks hcl.Blocks, name string) {
	if len(blocks) == 0 {
		return
	}
	if field.Kind() == reflect.Pointer && len(blocks) > 1 {
		d.diags = append(d.diags, expr.Problem(blocks[1].DefRange, "a second %s block; the first is on line %d", name, blocks[0].DefRange.Start.Line))
		return
	}
	for _, b := range blocks {
		item := reflect.New(fields.Elem(field.Type()))
		d.Prefill(item.Interface(), strings.Join(append([]string{name}, b.Labels...), " "), d.jobType)
		d.structure(item.Elem(), b.Body, b.Labels)
		if policy, ok := item.Interface().(*api.ScalingPolicy); ok {
			d.scaling(policy, b)
		}
		d.keep(field, item, b)
	}
}

func (d *decoder) keep(field, item reflect.Value, b *hcl.Block) {
	switch field.Kind() {
	case reflect.Pointer:
		field.Set(item)
	case reflect.Slice:
		if field.Type().Elem().Kind() != reflect.Pointer {
			item = item.Elem()
		}
		field.Set(reflect.Append(field, item))
	case reflect.Map:
		if field.IsNil() {
			field.Set(reflect.MakeMap(field.Type()))
		}
		label := reflect.ValueOf(b.Labels[0])
		if field.MapIndex(label).IsValid() {
			d.diags = append(d.diags, expr.Problem(b.DefRange, "%s %q is there twice", b.Type, b.Labels[0]))
		}
		field.SetMapIndex(label, item)
	}
}

// attribute evaluates and converts one attribute; false when it gives no value.
func (d *decoder) attribute(field reflect.Value, a *hcl.Attribute) bool {
	v, diags := expr.Evaluate(a.Expr, d.scope)
	d.diags = append(d.diags, diags...)
	if diags.HasErrors() || v.IsNull() {
		return false
	}
	if err := assign(field, v); err != nil {
		d.diags = append(d.diags, expr.Problem(a.Expr.Range(), "%s: %v", a.Name, err))
		return false
	}
	return true
}

// assign converts a value to the kind of the field.
func assign(dst reflect.Value, v cty.Value) error {
	if dst.Kind() == reflect.Pointer {
		inner := reflect.New(dst.Type().Elem())
		if err := assign(inner.Elem(), v); err != nil {
			return err
		}
		dst.Set(inner)
		return nil
	}
	if !v.IsWhollyKnown() {
		return fmt.Errorf("the value is not known")
	}
	switch {
	case dst.Type() == durationType:
		return assignDuration(dst, v)
	case dst.Kind() == reflect.Slice:
		return assignList(dst, v)
	case dst.Kind() == reflect.Map:
		return assignMap(dst, v)
	}
	return assignScalar(dst, v)
}

func assignScalar(dst reflect.Value, v cty.Value) error {
	want := cty.Number
	switch dst.Kind() {
	case reflect.String:
		want = cty.String
	case reflect.Bool:
		want = cty.Bool
	}
	c, err := convert.Convert(v, want)
	if err != nil || c.IsNull() {
		return fmt.Errorf("a %s is needed, not %s", want.FriendlyName(), v.Type().FriendlyName())
	}
	switch want {
	case cty.String:
		dst.SetString(c.AsString())
		return nil
	case cty.Bool:
		dst.SetBool(c.True())
		return nil
	}
	if dst.CanFloat() {
		f, _ := c.AsBigFloat().Float64()
		dst.SetFloat(f)
		return nil
	}
	i, accuracy := c.AsBigFloat().Int64()
	switch {
	case accuracy != big.Exact:
		return fmt.Errorf("a whole number is needed")
	case dst.CanUint() && (i < 0 || dst.OverflowUint(uint64(i))), dst.CanInt() && dst.OverflowInt(i):
		return fmt.Errorf("%d is out of range", i)
	case dst.CanUint():
		dst.SetUint(uint64(i))
	default:
		dst.SetInt(i)
	}
	return nil
}

func assignDuration(dst reflect.Value, v cty.Value) error {
	if v.Type() == cty.Number {
		i, accuracy := v.AsBigFloat().Int64()
		if accuracy != big.Exact {
			return fmt.Errorf("a whole number of nanoseconds is needed")
		}
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

func assignList(dst reflect.Value, v cty.Value) error {
	if !v.CanIterateElements() || v.Type().IsObjectType() || v.Type().IsMapType() {
		return fmt.Errorf("a list is needed")
	}
	list := reflect.MakeSlice(dst.Type(), 0, v.LengthInt())
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		item := reflect.New(dst.Type().Elem()).Elem()
		if err := assign(item, e); err != nil {
			return fmt.Errorf("element %d: %w", list.Len(), err)
		}
		list = reflect.Append(list, item)
	}
	dst.Set(list)
	return nil
}

func assignMap(dst reflect.Value, v cty.Value) error {
	if !v.CanIterateElements() || !(v.Type().IsObjectType() || v.Type().IsMapType()) {
		return fmt.Errorf("a map is needed")
	}
	m := reflect.MakeMap(dst.Type())
	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		item := reflect.New(dst.Type().Elem()).Elem()
		if item.Kind() == reflect.Interface {
			item.Set(reflect.ValueOf(plain(e)))
		} else if err := assign(item, e); err != nil {
			return fmt.Errorf("key %q: %w", k.AsString(), err)
		}
		m.SetMapIndex(reflect.ValueOf(k.AsString()), item)
	}
	dst.Set(m)
	return nil
}
