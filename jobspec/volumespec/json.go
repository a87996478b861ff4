package volumespec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/api/fault"
)

// parseJSON reads the same tree from JSON. Nesting was bounded before.
func parseJSON(path string, source []byte) ([]item, error) {
	p := &jsonParser{source: source, decoder: json.NewDecoder(bytes.NewReader(source))}
	p.decoder.UseNumber()
	v, err := p.value()
	if err == nil && p.decoder.More() {
		err = errors.New("there is more behind the closing brace")
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, &problem{path, p.place(), err.Error()})
	}
	return v.items, nil
}

type jsonParser struct {
	source  []byte
	decoder *json.Decoder
}

// place is where the next token begins.
func (p *jsonParser) place() place {
	offset := int(p.decoder.InputOffset())
	for offset < len(p.source) && bytes.IndexByte([]byte(" \t\r\n,:"), p.source[offset]) >= 0 {
		offset++
	}
	before := p.source[:offset]
	line := bytes.LastIndexByte(before, '\n')
	return place{bytes.Count(before, []byte{'\n'}) + 1, offset - line}
}

func (p *jsonParser) value() (value, error) {
	v := value{at: p.place()}
	t, err := p.decoder.Token()
	if err != nil {
		return v, err
	}
	switch t := t.(type) {
	case string:
		v.text = t
	case json.Number:
		v.kind, v.text = number, t.String()
	case bool:
		v.kind, v.text = boolean, fmt.Sprint(t)
	case nil:
		v.kind = null
	case json.Delim:
		if t == '[' {
			return p.list(v)
		}
		return p.items(v)
	}
	return v, nil
}

func (p *jsonParser) list(v value) (value, error) {
	v.kind = list
	for p.decoder.More() {
		element, err := p.value()
		if err != nil {
			return v, err
		}
		v.list = append(v.list, element)
	}
	_, err := p.decoder.Token()
	return v, err
}

func (p *jsonParser) items(v value) (value, error) {
	v.kind = body
	for p.decoder.More() {
		it := item{at: p.place()}
		key, err := p.decoder.Token()
		if err != nil {
			return v, err
		}
		it.key = fmt.Sprint(key)
		if it.value, err = p.value(); err != nil {
			return v, err
		}
		v.items = append(v.items, it)
	}
	_, err := p.decoder.Token()
	return v, err
}
