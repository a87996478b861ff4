package expr

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec/nesting"
)

// Body checks and parses a text in HCL or JSON, depending on its first character. The meter weighs its expressions'
// values.
func Body(path string, text []byte, m *Meter) (hcl.Body, error) {
	trimmed := bytes.TrimSpace(text)
	inJSON := len(trimmed) > 0 && trimmed[0] == '{'
	check := nesting.Check
	if inJSON {
		check = nesting.CheckJSON
	}
	if err := check(path, text); err != nil {
		return nil, err
	}
	var file *hcl.File
	var diags hcl.Diagnostics
	if inJSON {
		file, diags = json.Parse(text, path)
	} else {
		file, diags = hclsyntax.ParseConfig(text, path, hcl.InitialPos)
	}
	if diags.HasErrors() {
		return nil, Problems(diags)
	}
	if native, ok := file.Body.(*hclsyntax.Body); ok {
		m.watch(native)
		return native, nil
	}
	return jsonBody{file.Body, m}, nil
}

// Value parses and evaluates an expression that stands alone, on a meter of its own; source names it in errors.
func Value(source, text string) (cty.Value, hcl.Diagnostics) {
	if err := nesting.Check(source, []byte(text)); err != nil {
		return cty.DynamicVal, hcl.Diagnostics{Problem(hcl.Range{Filename: source, Start: hcl.InitialPos, End: hcl.InitialPos}, "%v", err)}
	}
	e, diags := hclsyntax.ParseExpression([]byte(text), source, hcl.InitialPos)
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}
	m := NewMeter(nil)
	m.watch(e)
	return m.wrap(e).Value(nil)
}

// CheckType refuses a type of a file in JSON, where it is a text, that nests too deeply.
func CheckType(e hcl.Expression) hcl.Diagnostics {
	if _, texts := e.(jsonExpression); !texts {
		return nil
	}
	text, diags := e.Value(nil)
	if diags.HasErrors() || text.IsNull() || text.Type() != cty.String {
		return diags
	}
	if err := nesting.Check(e.Range().Filename, []byte(text.AsString())); err != nil {
		return hcl.Diagnostics{Problem(e.Range(), "%v", err)}
	}
	return nil
}

// Problem is one mistake at a place.
func Problem(rng hcl.Range, format string, args ...any) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: fmt.Sprintf(format, args...), Subject: &rng}
}

// Problems turns diagnostics into one error of lines file:line:column: reason.
func Problems(diags hcl.Diagnostics) error {
	var errs []error
	seen := map[string]bool{}
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		text := d.Summary
		if d.Detail != "" {
			text += "; " + d.Detail
		}
		if d.Subject != nil {
			text = fmt.Sprintf("%s:%d:%d: %s", d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column, text)
		}
		if !seen[text] {
			seen[text] = true
			errs = append(errs, errors.New(text))
		}
	}
	return fault.Wrap(fault.Invalid, errors.Join(errs...))
}
