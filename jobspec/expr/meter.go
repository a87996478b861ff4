package expr

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/dynblock"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/jobspec/bounds"
)

// Weights of what expressions make. All that one file makes weighs at most [WeightMax].
const (
	// WeightMax is how much the expressions of a file may make, in bytes.
	WeightMax = 8 << 20
	// valueWeight is what a value weighs besides its text.
	valueWeight = 64
	// blockWeight is what one block of a dynamic block weighs.
	blockWeight = 1 << 10
	// mistakeWeight is what a mistake weighs: loops repeat them.
	mistakeWeight = 16 << 10
)

// Meter weighs the values that expressions make. What is made more than once weighs each time, and what takes
// long to make weighs more than it holds, so it bounds both time and memory.
type Meter struct {
	left int
	// excess is the first excess; where is the expression that caused it.
	excess string
	where  hcl.Range
	// stopped reports that no caller waits for the result; nil is never stopped.
	stopped func() bool
}

// NewMeter returns an unused meter. stopped, if set, is called repeatedly and reports whether no caller waits for the
// result any more.
func NewMeter(stopped func() bool) *Meter { return &Meter{left: WeightMax, stopped: stopped} }

// Diagnostics returns the excess, or nothing.
func (m *Meter) Diagnostics() hcl.Diagnostics {
	if m.excess == "" {
		return nil
	}
	return hcl.Diagnostics{Problem(m.where, "%s", m.excess)}
}

func (m *Meter) exceeded(text string) {
	if m.excess == "" {
		m.excess = text
	}
}

// at sets the place of the excess; the innermost expression is called first.
func (m *Meter) at(r hcl.Range) {
	if m.excess != "" && m.where.Filename == "" {
		m.where = r
	}
}

// take reports whether there was still room for the weight.
func (m *Meter) take(weight int) bool {
	if m.stopped != nil && m.stopped() {
		m.exceeded("the request was canceled")
		return false
	}
	if m.excess != "" || weight > m.left {
		m.exceeded(fmt.Sprintf("expressions produce more than %d MiB of values: use shorter lists and strings or fewer nested loops", WeightMax>>20))
		return false
	}
	m.left -= weight
	return true
}

// toil is take for what a call weighs because of its time.
func (m *Meter) toil(weight int) bool {
	if weight > m.left {
		m.exceeded("hashes and comparisons exceed the time limit of a job file: use fewer of them")
	}
	return m.take(weight)
}

// weigh takes the weight of a value with all that is inside.
func (m *Meter) weigh(v cty.Value) bool {
	if !m.take(valueWeight) {
		return false
	}
	v, _ = v.Unmark()
	if v == cty.NilVal || v.IsNull() || !v.IsKnown() {
		return true
	}
	switch {
	case v.Type() == cty.String:
		return m.take(len(v.AsString()))
	case v.Type() == cty.Number:
		if e := v.AsBigFloat().MantExp(nil); e > bounds.ExponentMax || e < -bounds.ExponentMax {
			m.exceeded("a number is out of range")
			return false
		}
	case v.CanIterateElements():
		for it := v.ElementIterator(); it.Next(); {
			if _, e := it.Element(); !m.weigh(e) {
				return false
			}
		}
	}
	return true
}

// weighed is an expression whose value is weighed. The parentheses keep what it wraps visible to walks.
type weighed struct {
	*hclsyntax.ParenthesesExpr
	meter *Meter
}

// Value implements [hcl.Expression]. Beyond the limit it is unknown, which ends loops around it.
func (w weighed) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	if w.meter.excess != "" {
		return cty.DynamicVal, nil
	}
	v, diags := w.ParenthesesExpr.Value(ctx)
	if diags.HasErrors() {
		w.meter.take(mistakeWeight)
	} else {
		w.meter.weigh(v)
	}
	w.meter.at(w.Range())
	if w.meter.excess != "" {
		return cty.DynamicVal, w.meter.Diagnostics()
	}
	return v, diags
}

// UnwrapExpression lets static analysis see the expression itself.
func (w weighed) UnwrapExpression() hcl.Expression { return w.Expression }

// wrap makes an expression weighed, unless what it makes is already there.
func (m *Meter) wrap(e hclsyntax.Expression) hclsyntax.Expression {
	switch e.(type) {
	case nil, *hclsyntax.LiteralValueExpr, weighed:
		return e
	}
	return m.always(e)
}

// always makes an expression weighed even if it is only a literal.
func (m *Meter) always(e hclsyntax.Expression) hclsyntax.Expression {
	return weighed{&hclsyntax.ParenthesesExpr{Expression: e, SrcRange: e.Range()}, m}
}

func (m *Meter) wrapAll(all []hclsyntax.Expression) {
	for i, e := range all {
		all[i] = m.wrap(e)
	}
}

// watch weighs everything below a parsed text where values grow: repeated, joined or compared.
func (m *Meter) watch(n hclsyntax.Node) {
	hclsyntax.VisitAll(n, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n := n.(type) {
		case *hclsyntax.Attribute:
			// A plain reference may be a keyword, and makes nothing.
			if _, plain := n.Expr.(*hclsyntax.ScopeTraversalExpr); !plain {
				n.Expr = m.wrap(n.Expr)
			}
		case *hclsyntax.ForExpr:
			n.CollExpr, n.ValExpr = m.wrap(n.CollExpr), m.always(n.ValExpr)
			n.KeyExpr, n.CondExpr = m.wrap(n.KeyExpr), m.condition(n.CondExpr)
		case *hclsyntax.TemplateExpr:
			m.wrapAll(n.Parts)
		case *hclsyntax.TupleConsExpr:
			m.wrapAll(n.Exprs)
		case *hclsyntax.ObjectConsExpr:
			for i := range n.Items {
				n.Items[i].ValueExpr = m.wrap(n.Items[i].ValueExpr)
			}
		case *hclsyntax.BinaryOpExpr:
			n.LHS, n.RHS = m.wrap(n.LHS), m.wrap(n.RHS)
		case *hclsyntax.ConditionalExpr:
			n.TrueResult, n.FalseResult = m.wrap(n.TrueResult), m.wrap(n.FalseResult)
		case *hclsyntax.SplatExpr:
			n.Source = m.wrap(n.Source)
		}
		return nil
	})
}

// condition is weighed in every turn of its loop, also in those that it leaves out.
func (m *Meter) condition(e hclsyntax.Expression) hclsyntax.Expression {
	if e == nil {
		return nil
	}
	return m.always(e)
}

// Blocks weighs the blocks that a dynamic block makes.
func (m *Meter) Blocks() dynblock.ExpandOption {
	return dynblock.OptCheckForEach(func(v cty.Value, e hcl.Expression, _ *hcl.EvalContext) hcl.Diagnostics {
		v, _ = v.Unmark()
		if v != cty.NilVal && v.IsKnown() && !v.IsNull() && v.CanIterateElements() {
			m.take(v.LengthInt() * blockWeight)
		}
		m.at(e.Range())
		return m.Diagnostics()
	})
}
