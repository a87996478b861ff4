package hclspec

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec/defaults"
	"github.com/open-nomad/open-nomad/jobspec/expr"
	"github.com/open-nomad/open-nomad/jobspec/fields"
	"github.com/open-nomad/open-nomad/jobspec/tree"
)

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
	if !v.IsWhollyKnown() {
		d.diags = append(d.diags, expr.Problem(a.Expr.Range(), "%s: the value is unknown", a.Name))
		return false
	}
	if err := tree.Assign(field, valueOf(v)); err != nil {
		d.diags = append(d.diags, expr.Problem(a.Expr.Range(), "%s: %v", a.Name, err))
		return false
	}
	return true
}

// valueOf turns an evaluated value into one that [tree.Assign] converts. What is not known is null.
func valueOf(v cty.Value) tree.Value {
	switch {
	case v == cty.NilVal || v.IsNull() || !v.IsKnown():
		return tree.Value{Kind: tree.Null}
	case v.Type() == cty.String:
		return tree.Value{Text: v.AsString()}
	case v.Type() == cty.Bool:
		return tree.Value{Kind: tree.Bool, Text: strconv.FormatBool(v.True())}
	case v.Type() == cty.Number:
		return tree.Value{Kind: tree.Number, Text: v.AsBigFloat().Text('f', -1)}
	case !v.CanIterateElements():
		return tree.Value{Kind: tree.Null}
	}
	isMap := v.Type().IsObjectType() || v.Type().IsMapType()
	all := tree.Value{Kind: tree.List}
	if isMap {
		all.Kind = tree.Block
	}
	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		if isMap {
			all.Items = append(all.Items, tree.Item{Key: k.AsString(), Value: valueOf(e)})
		} else {
			all.List = append(all.List, valueOf(e))
		}
	}
	return all
}
