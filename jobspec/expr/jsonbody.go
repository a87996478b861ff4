package expr

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// jsonBody is a body in JSON whose templates are weighed like those of the native syntax.
type jsonBody struct {
	hcl.Body
	meter *Meter
}

// Content implements [hcl.Body].
func (b jsonBody) Content(s *hcl.BodySchema) (*hcl.BodyContent, hcl.Diagnostics) {
	c, diags := b.Body.Content(s)
	return b.within(c), diags
}

// PartialContent implements [hcl.Body].
func (b jsonBody) PartialContent(s *hcl.BodySchema) (*hcl.BodyContent, hcl.Body, hcl.Diagnostics) {
	c, rest, diags := b.Body.PartialContent(s)
	return b.within(c), jsonBody{rest, b.meter}, diags
}

// JustAttributes implements [hcl.Body].
func (b jsonBody) JustAttributes() (hcl.Attributes, hcl.Diagnostics) {
	attrs, diags := b.Body.JustAttributes()
	return b.attributes(attrs), diags
}

func (b jsonBody) within(c *hcl.BodyContent) *hcl.BodyContent {
	c.Attributes = b.attributes(c.Attributes)
	for _, block := range c.Blocks {
		block.Body = jsonBody{block.Body, b.meter}
	}
	return c
}

func (b jsonBody) attributes(attrs hcl.Attributes) hcl.Attributes {
	for _, a := range attrs {
		a.Expr = jsonExpression{a.Expr, b.meter}
	}
	return attrs
}

type jsonExpression struct {
	hcl.Expression
	meter *Meter
}

// UnwrapExpression lets static analysis see the expression itself.
func (e jsonExpression) UnwrapExpression() hcl.Expression { return e.Expression }

// Value implements [hcl.Expression]. Without a context it returns the strings of the JSON unevaluated.
func (e jsonExpression) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	v, diags := e.Expression.Value(nil)
	if ctx == nil || diags.HasErrors() {
		return v, diags
	}
	return e.evaluate(v, ctx)
}

func (e jsonExpression) evaluate(v cty.Value, ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	switch {
	case v.IsNull() || !v.IsKnown():
		return v, nil
	case v.Type() == cty.String:
		return e.template(v, ctx)
	case v.Type().IsTupleType():
		var all []cty.Value
		var diags hcl.Diagnostics
		for it := v.ElementIterator(); it.Next(); {
			_, inner := it.Element()
			inner, more := e.evaluate(inner, ctx)
			all, diags = append(all, inner), append(diags, more...)
		}
		return cty.TupleVal(all), diags
	case v.Type().IsObjectType():
		all := map[string]cty.Value{}
		var diags hcl.Diagnostics
		for it := v.ElementIterator(); it.Next(); {
			k, inner := it.Element()
			k, more := e.template(k, ctx)
			diags = append(diags, more...)
			inner, more = e.evaluate(inner, ctx)
			diags = append(diags, more...)
			if name, err := convert.Convert(k, cty.String); err == nil && name.IsKnown() && !name.IsNull() {
				all[name.AsString()] = inner
			} else if !diags.HasErrors() {
				diags = append(diags, Problem(e.Range(), "a key is not a string"))
			}
		}
		return cty.ObjectVal(all), diags
	}
	return v, nil
}

func (e jsonExpression) template(v cty.Value, ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	if s := v.AsString(); !strings.Contains(s, "${") && !strings.Contains(s, "%{") {
		return v, nil
	}
	start := e.Range().Start
	start.Column, start.Byte = start.Column+1, start.Byte+1
	parsed, diags := hclsyntax.ParseTemplate([]byte(v.AsString()), e.Range().Filename, start)
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}
	e.meter.watch(parsed)
	return e.meter.wrap(parsed).Value(ctx)
}
