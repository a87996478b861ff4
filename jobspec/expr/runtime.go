package expr

import (
	"strconv"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// ours are the roots that a job file itself gives meaning to.
var ours = map[string]bool{"var": true, "local": true, "each": true, "path": true}

// Evaluate evaluates an expression. References to what is only known later become their own text.
func Evaluate(e hcl.Expression, scope *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	later := later{}
	for _, t := range e.Variables() {
		if !ours[t.RootName()] && !known(scope, t.RootName()) {
			later.add(t)
		}
	}
	if len(later) == 0 {
		return e.Value(scope)
	}
	child := scope.NewChild()
	child.Variables = later.values()
	return e.Value(child)
}

func known(scope *hcl.EvalContext, root string) bool {
	for c := scope; c != nil; c = c.Parent() {
		if _, ok := c.Variables[root]; ok {
			return true
		}
	}
	return false
}

// later is a tree of references whose leaves stand for their own text.
type later map[string]any

func (l later) add(t hcl.Traversal) {
	text := t.RootName()
	at, key := l, t.RootName()
	for _, step := range t[1:] {
		name, written, ok := stepOf(step)
		if !ok {
			break
		}
		inner, isTree := at[key].(later)
		if !isTree {
			inner = later{}
			at[key] = inner
		}
		at, key, text = inner, name, text+written
	}
	if _, deeper := at[key].(later); !deeper {
		at[key] = "${" + text + "}"
	}
}

func stepOf(step hcl.Traverser) (name, written string, ok bool) {
	switch s := step.(type) {
	case hcl.TraverseAttr:
		return s.Name, "." + s.Name, true
	case hcl.TraverseIndex:
		if s.Key.Type() == cty.String {
			return s.Key.AsString(), "[" + strconv.Quote(s.Key.AsString()) + "]", true
		}
	}
	return "", "", false
}

func (l later) values() map[string]cty.Value {
	values := map[string]cty.Value{}
	for key, v := range l {
		switch v := v.(type) {
		case string:
			values[key] = cty.StringVal(v)
		case later:
			values[key] = cty.ObjectVal(v.values())
		}
	}
	return values
}
