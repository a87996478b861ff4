package config

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/api/fault"
)

// depthMax bounds nesting: the parser recurses, and its stack cannot be caught.
const depthMax = 100

// node is one value of a file, whatever the syntax: a scalar or list in value, or a body in fields.
type node struct {
	rng    hcl.Range
	value  cty.Value
	fields []field
	isBody bool
}

// field is one key of a body; labels are those of an HCL block.
type field struct {
	key    string
	labels []string
	node   *node
}

func parse(path string, body []byte) (*node, error) {
	if err := checkDepth(path, body); err != nil {
		return nil, err
	}
	if trimmed := bytes.TrimSpace(body); len(trimmed) > 0 && trimmed[0] == '{' {
		file, diags := json.Parse(body, path)
		if diags.HasErrors() {
			return nil, diagnostics(diags)
		}
		attrs, diags := file.Body.JustAttributes()
		if diags.HasErrors() {
			return nil, diagnostics(diags)
		}
		return fromAttributes(attrs, file.Body.MissingItemRange())
	}
	file, diags := hclsyntax.ParseConfig(body, path, hcl.InitialPos)
	if !diags.HasErrors() {
		return fromBody(file.Body.(*hclsyntax.Body))
	}
	s := spreadLines(path, body)
	if s == nil {
		return nil, diagnostics(diags)
	}
	file, still := hclsyntax.ParseConfig(s.out.Bytes(), path, hcl.InitialPos)
	if still.HasErrors() {
		return nil, diagnostics(diags)
	}
	n, err := fromBody(file.Body.(*hclsyntax.Body))
	if err == nil {
		s.restore(n)
	}
	return n, err
}

// checkDepth counts brackets outside of strings, for both syntaxes.
func checkDepth(path string, body []byte) error {
	depth, line, inString := 0, 1, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '\n':
			line, inString = line+1, false
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[' || c == '(':
			if depth++; depth > depthMax {
				return fault.New(fault.Invalid, "%s:%d:1: nested deeper than %d levels", path, line, depthMax)
			}
		case c == '}' || c == ']' || c == ')':
			depth--
		}
	}
	return nil
}

func diagnostics(diags hcl.Diagnostics) error {
	var errs []error
	for _, d := range diags.Errs() {
		var diag *hcl.Diagnostic
		if errors.As(d, &diag) && diag.Subject != nil {
			errs = append(errs, fmt.Errorf("%s:%d:%d: %s; %s", diag.Subject.Filename, diag.Subject.Start.Line,
				diag.Subject.Start.Column, diag.Summary, diag.Detail))
			continue
		}
		errs = append(errs, d)
	}
	return fault.Wrap(fault.Invalid, errors.Join(errs...))
}

func fromBody(b *hclsyntax.Body) (*node, error) {
	n := &node{rng: b.SrcRange, isBody: true}
	for _, a := range b.Attributes {
		child, err := fromExpression(a.Expr)
		if err != nil {
			return nil, err
		}
		child.rng = a.NameRange
		n.fields = append(n.fields, field{key: a.Name, node: child})
	}
	for _, blk := range b.Blocks {
		child, err := fromBody(blk.Body)
		if err != nil {
			return nil, err
		}
		child.rng = blk.TypeRange
		n.fields = append(n.fields, field{key: blk.Type, labels: blk.Labels, node: child})
	}
	return n, nil
}

func fromAttributes(attrs hcl.Attributes, rng hcl.Range) (*node, error) {
	n := &node{rng: rng, isBody: true}
	for _, a := range attrs {
		child, err := fromExpression(a.Expr)
		if err != nil {
			return nil, err
		}
		child.rng = a.NameRange
		n.fields = append(n.fields, field{key: a.Name, node: child})
	}
	return n, nil
}

// fromExpression turns objects into bodies and everything else into values.
func fromExpression(e hcl.Expression) (*node, error) {
	if pairs, diags := hcl.ExprMap(e); !diags.HasErrors() {
		return fromPairs(pairs, e.Range())
	}
	v, diags := e.Value(nil)
	if diags.HasErrors() {
		return nil, diagnostics(diags)
	}
	n := &node{rng: e.Range(), value: v}
	if list, diags := hcl.ExprList(e); !diags.HasErrors() && len(list) > 0 && v.LengthInt() > 0 && allObjects(v) {
		return fromObjects(list, e.Range())
	}
	return n, nil
}

func fromPairs(pairs []hcl.KeyValuePair, rng hcl.Range) (*node, error) {
	n := &node{rng: rng, isBody: true}
	for _, p := range pairs {
		key, diags := p.Key.Value(nil)
		if diags.HasErrors() {
			if word := hcl.ExprAsKeyword(p.Key); word != "" {
				key = cty.StringVal(word)
			} else {
				return nil, diagnostics(diags)
			}
		}
		child, err := fromExpression(p.Value)
		if err != nil {
			return nil, err
		}
		child.rng = p.Key.Range()
		n.fields = append(n.fields, field{key: key.AsString(), node: child})
	}
	return n, nil
}

// fromObjects merges a list of objects: in JSON a block may be written as a list of one.
func fromObjects(list []hcl.Expression, rng hcl.Range) (*node, error) {
	n := &node{rng: rng, isBody: true}
	for _, e := range list {
		child, err := fromExpression(e)
		if err != nil {
			return nil, err
		}
		n.fields = append(n.fields, child.fields...)
	}
	return n, nil
}

func allObjects(v cty.Value) bool {
	for it := v.ElementIterator(); it.Next(); {
		if _, e := it.Element(); !e.Type().IsObjectType() {
			return false
		}
	}
	return true
}
