package jobspec

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/open-nomad/open-nomad/jobspec/bounds"
	"github.com/open-nomad/open-nomad/jobspec/expr"
)

// variable is a declared variable on its way to a value.
type variable struct {
	name       string
	typ        cty.Type
	value      cty.Value
	decl       hcl.Range
	validation []*hcl.Block
}

var variableSchema = &hcl.BodySchema{
	Attributes: []hcl.AttributeSchema{{Name: "type"}, {Name: "default"}, {Name: "description"}},
	Blocks:     []hcl.BlockHeaderSchema{{Type: "validation"}},
}

var validationSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{
	{Name: "condition", Required: true}, {Name: "error_message", Required: true},
}}

// scope evaluates variables and locals into what expressions of the job can see.
func (p *parser) scope(blocks hcl.Blocks) (*hcl.EvalContext, hcl.Diagnostics) {
	base := &hcl.EvalContext{Functions: expr.Functions(p.in.Files, p.meter), Variables: map[string]cty.Value{}}
	vars, diags := declared(blocks, base)
	diags = append(diags, p.assign(vars, base)...)
	values := map[string]cty.Value{}
	if len(vars) > bounds.NamesMax {
		return base, append(diags, expr.Problem(vars[bounds.NamesMax].decl, "more than %d variables", bounds.NamesMax))
	}
	for _, v := range vars {
		if v.value == cty.NilVal {
			diags = append(diags, expr.Problem(v.decl, "variable %q has no value: give it a default, -var '%s=...', or NOMAD_VAR_%s", v.name, v.name, v.name))
			continue
		}
		values[v.name] = v.value
	}
	base.Variables["var"] = cty.ObjectVal(values)
	if diags.HasErrors() {
		return base, diags
	}
	for _, v := range vars {
		diags = append(diags, v.validate(base)...)
	}
	locals, more := evaluateLocals(blocks, base)
	base.Variables["local"] = cty.ObjectVal(locals)
	return base, append(diags, more...)
}

func declared(blocks hcl.Blocks, base *hcl.EvalContext) ([]*variable, hcl.Diagnostics) {
	var vars []*variable
	var diags hcl.Diagnostics
	add := func(v *variable) {
		if slices.ContainsFunc(vars, func(o *variable) bool { return o.name == v.name }) {
			diags = append(diags, expr.Problem(v.decl, "variable %q is declared twice", v.name))
			return
		}
		vars = append(vars, v)
	}
	if all := blocks.OfType("variable"); len(all) > bounds.NamesMax {
		return nil, append(diags, expr.Problem(all[bounds.NamesMax].DefRange, "more than %d variables", bounds.NamesMax))
	}
	for _, b := range blocks.OfType("variable") {
		v, more := declare(b, base)
		diags = append(diags, more...)
		add(v)
	}
	for _, b := range blocks.OfType("variables") {
		attrs, more := b.Body.JustAttributes()
		diags = append(diags, more...)
		for name, a := range attrs {
			value, more := a.Expr.Value(base)
			diags = append(diags, more...)
			add(&variable{name: name, typ: value.Type(), value: value, decl: a.NameRange})
		}
	}
	return vars, diags
}

func declare(b *hcl.Block, base *hcl.EvalContext) (*variable, hcl.Diagnostics) {
	v := &variable{name: b.Labels[0], typ: cty.DynamicPseudoType, decl: b.DefRange}
	content, diags := b.Body.Content(variableSchema)
	if a := content.Attributes["type"]; a != nil {
		if more := expr.CheckType(a.Expr); more.HasErrors() {
			return v, append(diags, more...)
		}
		typ, more := typeexpr.TypeConstraint(a.Expr)
		diags = append(diags, more...)
		v.typ = typ
	}
	if a := content.Attributes["default"]; a != nil {
		value, more := a.Expr.Value(base)
		diags = append(diags, more...)
		if !more.HasErrors() {
			converted, err := convert.Convert(value, v.typ)
			if err != nil {
				diags = append(diags, expr.Problem(a.Expr.Range(), "default of variable %q: %v", v.name, err))
			} else {
				v.value = converted
			}
		}
	}
	v.validation = content.Blocks
	return v, diags
}

// assign gives variables their values, the weakest source first.
func (p *parser) assign(vars []*variable, base *hcl.EvalContext) hcl.Diagnostics {
	var diags hcl.Diagnostics
	find := func(name string) *variable {
		if i := slices.IndexFunc(vars, func(v *variable) bool { return v.name == name }); i >= 0 {
			return vars[i]
		}
		return nil
	}
	for _, pair := range p.in.Env {
		name, text, _ := strings.Cut(pair, "=")
		if name, ours := strings.CutPrefix(name, "NOMAD_VAR_"); ours {
			if v := find(name); v != nil {
				diags = append(diags, v.setText(text, "NOMAD_VAR_"+name)...)
			}
		}
	}
	for _, f := range p.in.VarFiles {
		diags = append(diags, p.assignFile(f, find, base)...)
	}
	for _, name := range slices.Sorted(mapKeys(p.in.Vars)) {
		v := find(name)
		switch {
		case v != nil:
			diags = append(diags, v.setText(p.in.Vars[name], "-var "+name)...)
		case !p.in.Lenient:
			diags = append(diags, expr.Problem(hcl.Range{Filename: "-var " + name}, "variable %q is not declared in %s", name, p.in.Path))
		}
	}
	return diags
}

func (p *parser) assignFile(f File, find func(string) *variable, base *hcl.EvalContext) hcl.Diagnostics {
	body, err := expr.Body(f.Path, f.Body, p.meter)
	if err != nil {
		return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: err.Error()}}
	}
	attrs, diags := body.JustAttributes()
	for name, a := range attrs {
		v := find(name)
		if v == nil {
			if !p.in.Lenient {
				diags = append(diags, expr.Problem(a.NameRange, "variable %q is not declared in %s", name, p.in.Path))
			}
			continue
		}
		value, more := a.Expr.Value(base)
		diags = append(diags, more...)
		if !more.HasErrors() {
			diags = append(diags, v.set(value, a.Expr.Range())...)
		}
	}
	return diags
}

// setText sets a value given as text: itself for strings, else an HCL expression.
func (v *variable) setText(text, source string) hcl.Diagnostics {
	rng := hcl.Range{Filename: source, Start: hcl.InitialPos, End: hcl.InitialPos}
	if v.typ == cty.DynamicPseudoType || v.typ.IsPrimitiveType() {
		return v.set(cty.StringVal(text), rng)
	}
	value, diags := expr.Value(source, text)
	if diags.HasErrors() {
		return diags
	}
	return v.set(value, rng)
}

func (v *variable) set(value cty.Value, rng hcl.Range) hcl.Diagnostics {
	converted, err := convert.Convert(value, v.typ)
	if err != nil {
		return hcl.Diagnostics{expr.Problem(rng, "variable %q: %v", v.name, err)}
	}
	v.value = converted
	return nil
}

func (v *variable) validate(scope *hcl.EvalContext) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, b := range v.validation {
		content, more := b.Body.Content(validationSchema)
		diags = append(diags, more...)
		if more.HasErrors() {
			continue
		}
		condition := content.Attributes["condition"].Expr
		holds, more := condition.Value(scope)
		diags = append(diags, more...)
		text, more := content.Attributes["error_message"].Expr.Value(scope)
		diags = append(diags, more...)
		if diags.HasErrors() {
			continue
		}
		if holds.IsNull() || holds.Type() != cty.Bool {
			diags = append(diags, expr.Problem(condition.Range(), "condition of variable %q is not true or false", v.name))
		} else if holds.False() {
			diags = append(diags, expr.Problem(condition.Range(), "variable %q: %s", v.name, textOf(text)))
		}
	}
	return diags
}

func textOf(v cty.Value) string {
	if s, err := convert.Convert(v, cty.String); err == nil && !s.IsNull() {
		return s.AsString()
	}
	return "the condition does not hold"
}

// evaluateLocals evaluates locals in the order of their dependencies.
func evaluateLocals(blocks hcl.Blocks, base *hcl.EvalContext) (map[string]cty.Value, hcl.Diagnostics) {
	var diags hcl.Diagnostics
	open := map[string]*hcl.Attribute{}
	for _, b := range blocks.OfType("locals") {
		attrs, more := b.Body.JustAttributes()
		diags = append(diags, more...)
		for name, a := range attrs {
			if open[name] != nil {
				diags = append(diags, expr.Problem(a.NameRange, "local %q is declared twice", name))
			}
			if open[name] = a; len(open) > bounds.NamesMax {
				return nil, append(diags, expr.Problem(a.NameRange, "more than %d locals", bounds.NamesMax))
			}
		}
	}
	needs := map[string][]string{}
	for name, a := range open {
		needs[name] = localsIn(a.Expr)
	}
	values := map[string]cty.Value{}
	for len(open) > 0 {
		before := len(open)
		for _, name := range slices.Sorted(mapKeys(open)) {
			if slices.ContainsFunc(needs[name], func(dep string) bool { return open[dep] != nil }) {
				continue
			}
			base.Variables["local"] = cty.ObjectVal(values)
			value, more := expr.Evaluate(open[name].Expr, base)
			diags = append(diags, more...)
			values[name] = value
			delete(open, name)
		}
		if len(open) == before {
			names := slices.Sorted(mapKeys(open))
			return values, append(diags, expr.Problem(open[names[0]].NameRange, "locals depend on each other in a cycle: %s", strings.Join(names, ", ")))
		}
	}
	return values, diags
}

// localsIn lists the locals that an expression refers to.
func localsIn(e hcl.Expression) []string {
	var names []string
	for _, t := range e.Variables() {
		if t.RootName() != "local" || len(t) < 2 {
			continue
		}
		if attr, ok := t[1].(hcl.TraverseAttr); ok {
			names = append(names, attr.Name)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

func mapKeys[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
