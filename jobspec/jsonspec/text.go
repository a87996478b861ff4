package jsonspec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/open-nomad/open-nomad/jobspec/bounds"
)

// document is a JSON text that was read once: all its values in the order of the text, an object's
// keys as values before their own. Nothing is copied out until it is asked for.
type document struct {
	text  []byte
	spans []span
}

// span is where a value stands in the text, and the index of the first value that is not inside it.
type span struct{ start, end, next int32 }

// spanBytes is about how much text a value takes in jobs as programs write them; for more than
// spansFirst values room is made as they come.
const (
	spanBytes  = 8
	spansFirst = 1 << 14
)

// read reads a text whose values nest at most depth levels. Names that repeat and bytes that are no
// UTF-8 are taken, as encoding/json does.
func read(text []byte, depth int) (*document, error) {
	d := &document{text: text, spans: make([]span, 0, min(len(text)/spanBytes+8, spansFirst))}
	in := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var open []int
	for {
		var err error
		switch in.PeekKind() {
		case '{', '[':
			_, err = in.ReadToken()
			if in.StackDepth() > depth {
				return nil, bounds.TooDeep(int(in.InputOffset()) - 1)
			}
			open = append(open, len(d.spans))
			d.spans = append(d.spans, span{start: int32(in.InputOffset()) - 1})
		case '}', ']':
			_, err = in.ReadToken()
			last := len(open) - 1
			if err == nil {
				s := &d.spans[open[last]]
				s.end, s.next, open = int32(in.InputOffset()), int32(len(d.spans)), open[:last]
			}
		default:
			var v jsontext.Value
			v, err = in.ReadValue()
			end := int32(in.InputOffset())
			d.spans = append(d.spans, span{end - int32(len(v)), end, int32(len(d.spans)) + 1})
		}
		if err != nil {
			return nil, misread(text, err)
		}
		if len(open) == 0 {
			break
		}
	}
	if _, err := in.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, misread(text, err)
	}
	return d, nil
}

// misread returns the error of encoding/json for a text, which users know.
func misread(text []byte, err error) error {
	var whole json.RawMessage
	return cmp.Or(json.Unmarshal(text, &whole), err)
}

// raw is the text of a value, kind its first byte.
func (d *document) raw(i int) []byte { return d.text[d.spans[i].start:d.spans[i].end] }

func (d *document) kind(i int) byte { return d.text[d.spans[i].start] }

// str is the meaning of a quoted text.
func (d *document) str(i int) string {
	raw := d.raw(i)
	if plain := raw[1 : len(raw)-1]; bytes.IndexByte(plain, '\\') < 0 && utf8.Valid(plain) {
		return string(plain)
	}
	var s string
	_ = json.Unmarshal(raw, &s) // it was read before
	return s
}

// member is the value of the last member of an object with a name, in any case, or -1.
func (d *document) member(i int, name string) int {
	value := -1
	for key := range d.members(i) {
		raw := d.raw(key)
		escaped := bytes.IndexByte(raw, '\\') >= 0
		if escaped && strings.EqualFold(d.str(key), name) || bytes.EqualFold(raw[1:len(raw)-1], []byte(name)) {
			value = key + 1
		}
	}
	return value
}

// items are the values of a list.
func (d *document) items(i int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for at := i + 1; at < int(d.spans[i].next) && yield(at); at = int(d.spans[at].next) {
		}
	}
}

// members are the keys of an object; the value follows its key.
func (d *document) members(i int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for at := i + 1; at < int(d.spans[i].next) && yield(at); at = int(d.spans[at+1].next) {
		}
	}
}
