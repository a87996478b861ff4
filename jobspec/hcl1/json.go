package hcl1

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec/tree"
)

// parseJSON reads the same tree from JSON.
func parseJSON(path string, source []byte) ([]tree.Item, error) {
	p := &jsonParser{source: source, decoder: json.NewDecoder(bytes.NewReader(source))}
	p.decoder.UseNumber()
	v, err := p.value()
	if err == nil && p.decoder.More() {
		err = errors.New("unexpected text after the closing brace")
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, &tree.Error{Path: path, At: p.place(), Reason: err.Error()})
	}
	return v.Items, nil
}

type jsonParser struct {
	source  []byte
	decoder *json.Decoder
	depth   int
	// before is the offset up to which the lines are counted, line how many they are, begin where the last one begins.
	before, line, begin int
}

// place is where the next token begins. Calls go forward through the source.
func (p *jsonParser) place() tree.Place {
	offset := max(int(p.decoder.InputOffset()), p.before)
	for offset < len(p.source) && bytes.IndexByte([]byte(" \t\r\n,:"), p.source[offset]) >= 0 {
		offset++
	}
	passed := p.source[p.before:offset]
	p.line += bytes.Count(passed, []byte{'\n'})
	if last := bytes.LastIndexByte(passed, '\n'); last >= 0 {
		p.begin = p.before + last + 1
	}
	p.before = offset
	return tree.Place{Line: p.line + 1, Column: offset - p.begin + 1}
}

func (p *jsonParser) value() (tree.Value, error) {
	v := tree.Value{At: p.place()}
	t, err := p.decoder.Token()
	if err != nil {
		return v, err
	}
	switch t := t.(type) {
	case string:
		v.Text = t
	case json.Number:
		v.Kind, v.Text = tree.Number, t.String()
	case bool:
		v.Kind, v.Text = tree.Bool, fmt.Sprint(t)
	case nil:
		v.Kind = tree.Null
	case json.Delim:
		if p.depth++; p.depth > DepthMax {
			return v, fmt.Errorf("nested deeper than %d levels", DepthMax)
		}
		defer func() { p.depth-- }()
		if t == '[' {
			return p.list(v)
		}
		return p.items(v)
	}
	return v, nil
}

func (p *jsonParser) list(v tree.Value) (tree.Value, error) {
	v.Kind = tree.List
	for p.decoder.More() {
		element, err := p.value()
		if err != nil {
			return v, err
		}
		v.List = append(v.List, element)
	}
	_, err := p.decoder.Token()
	return v, err
}

func (p *jsonParser) items(v tree.Value) (tree.Value, error) {
	v.Kind = tree.Block
	for p.decoder.More() {
		it := tree.Item{At: p.place()}
		key, err := p.decoder.Token()
		if err != nil {
			return v, err
		}
		it.Key = fmt.Sprint(key)
		if it.Value, err = p.value(); err != nil {
			return v, err
		}
		v.Items = append(v.Items, it)
	}
	_, err := p.decoder.Token()
	return v, err
}
