package hcl1

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/api/fault"
)

// parseJSON reads the same tree from JSON.
func parseJSON(path string, source []byte) ([]Item, error) {
	p := &jsonParser{source: source, decoder: json.NewDecoder(bytes.NewReader(source))}
	p.decoder.UseNumber()
	v, err := p.value()
	if err == nil && p.decoder.More() {
		err = errors.New("there is more behind the closing brace")
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, &Error{path, p.place(), err.Error()})
	}
	return v.Items, nil
}

type jsonParser struct {
	source  []byte
	decoder *json.Decoder
	depth   int
}

// place is where the next token begins.
func (p *jsonParser) place() Place {
	offset := int(p.decoder.InputOffset())
	for offset < len(p.source) && bytes.IndexByte([]byte(" \t\r\n,:"), p.source[offset]) >= 0 {
		offset++
	}
	before := p.source[:offset]
	line := bytes.LastIndexByte(before, '\n')
	return Place{bytes.Count(before, []byte{'\n'}) + 1, offset - line}
}

func (p *jsonParser) value() (Value, error) {
	v := Value{At: p.place()}
	t, err := p.decoder.Token()
	if err != nil {
		return v, err
	}
	switch t := t.(type) {
	case string:
		v.Text = t
	case json.Number:
		v.Kind, v.Text = Number, t.String()
	case bool:
		v.Kind, v.Text = Bool, fmt.Sprint(t)
	case nil:
		v.Kind = Null
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

func (p *jsonParser) list(v Value) (Value, error) {
	v.Kind = List
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

func (p *jsonParser) items(v Value) (Value, error) {
	v.Kind = Block
	for p.decoder.More() {
		it := Item{At: p.place()}
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
