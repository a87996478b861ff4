package view

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/template"

	"github.com/open-nomad/open-nomad/api/fault"
)

// JSON prints v indented.
func JSON(w io.Writer, v any) error {
	out, err := json.MarshalIndent(v, "", "    ")
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	_, err = fmt.Fprintln(w, Text(string(out)))
	return err
}

// Template prints v through a Go template.
func Template(w io.Writer, text string, v any) error {
	t, err := template.New("format").Funcs(template.FuncMap{
		"json": func(v any) (string, error) {
			out, err := json.Marshal(v)
			return string(out), err
		},
	}).Parse(text)
	if err != nil {
		return fault.New(fault.Invalid, "format template: %w", err)
	}
	var out strings.Builder
	if err := t.Execute(&out, v); err != nil {
		return fault.New(fault.Invalid, "format template: %w", err)
	}
	_, err = fmt.Fprintln(w, Text(out.String()))
	return err
}
