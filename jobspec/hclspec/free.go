package hclspec

import (
	"reflect"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/open-nomad/open-nomad/jobspec/expr"
)

// mapping decodes a free-form block, or the attribute of the same name, into a map.
func (d *decoder) mapping(field reflect.Value, name string, c *hcl.BodyContent) {
	blocks := c.Blocks.OfType(name)
	attr := c.Attributes[name]
	switch {
	case attr != nil && len(blocks) > 0:
		d.diags = append(d.diags, expr.Problem(attr.NameRange, "%s is given as a block and as a map", name))
	case attr != nil:
		d.attribute(field, attr)
	case len(blocks) > 1:
		d.diags = append(d.diags, expr.Problem(blocks[1].DefRange, "a second %s block; the first is on line %d", name, blocks[0].DefRange.Start.Line))
	case len(blocks) == 1 && field.Type().Elem().Kind() != reflect.Interface:
		d.stringMap(field, blocks[0])
	case len(blocks) == 1:
		field.Set(reflect.ValueOf(d.free(blocks[0])))
	}
}

func (d *decoder) stringMap(field reflect.Value, b *hcl.Block) {
	c := d.freeContent(b)
	m := reflect.MakeMap(field.Type())
	for _, stray := range c.Blocks {
		d.diags = append(d.diags, expr.Problem(stray.DefRange, "a block %q is not allowed in %s", stray.Type, b.Type))
	}
	for name, a := range c.Attributes {
		item := reflect.New(field.Type().Elem()).Elem()
		d.attribute(item, a)
		m.SetMapIndex(reflect.ValueOf(name), item)
	}
	field.Set(m)
}

// free decodes a block of unknown shape: attributes become values, blocks lists of maps.
func (d *decoder) free(b *hcl.Block) map[string]any {
	m := map[string]any{}
	c := d.freeContent(b)
	for name, a := range c.Attributes {
		v, diags := expr.Evaluate(a.Expr, d.scope)
		d.diags = append(d.diags, diags...)
		m[name] = boxed(valueOf(v).Any())
	}
	for _, inner := range c.Blocks {
		d.nest(m, inner)
	}
	return m
}

// freeContent reads a body whose keys are not known beforehand: they are taken from the text.
func (d *decoder) freeContent(b *hcl.Block) *hcl.BodyContent {
	var s hcl.BodySchema
	native := d.texts[b.TypeRange.Start.Byte]
	if native == nil {
		attrs, diags := b.Body.JustAttributes()
		d.diags = append(d.diags, diags...)
		return &hcl.BodyContent{Attributes: attrs}
	}
	for name := range native.Attributes {
		s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: name})
	}
	for _, inner := range native.Blocks {
		h := hcl.BlockHeaderSchema{Type: inner.Type}
		labels := len(inner.Labels)
		if inner.Type == "dynamic" && labels == 1 {
			h.Type, labels = inner.Labels[0], 0
		}
		for range labels {
			h.LabelNames = append(h.LabelNames, "name")
		}
		if !slices.ContainsFunc(s.Blocks, func(o hcl.BlockHeaderSchema) bool { return o.Type == h.Type }) {
			s.Blocks = append(s.Blocks, h)
		}
	}
	return d.content(b.Body, &s)
}

// textsOf finds the text of each block by where it begins. Expanded bodies hide it.
func textsOf(body hcl.Body) map[int]*hclsyntax.Body {
	found := map[int]*hclsyntax.Body{}
	var walk func(*hclsyntax.Body)
	walk = func(b *hclsyntax.Body) {
		for _, inner := range b.Blocks {
			found[inner.TypeRange.Start.Byte] = inner.Body
			if inner.Type == "dynamic" {
				for _, c := range inner.Body.Blocks {
					if c.Type == "content" {
						found[inner.TypeRange.Start.Byte] = c.Body
					}
				}
			}
			walk(inner.Body)
		}
	}
	if native, ok := body.(*hclsyntax.Body); ok {
		walk(native)
	}
	return found
}

// boxed wraps maps in a list of one, as blocks are: drivers see the same for both ways of writing.
func boxed(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for k, inner := range m {
		m[k] = boxed(inner)
	}
	return []any{m}
}

// nest adds a block to the list of its name, below a map per label.
func (d *decoder) nest(m map[string]any, b *hcl.Block) {
	var value any = d.free(b)
	for i := len(b.Labels) - 1; i >= 0; i-- {
		value = map[string]any{b.Labels[i]: []any{value}}
	}
	list, _ := m[b.Type].([]any)
	m[b.Type] = append(list, value)
}
