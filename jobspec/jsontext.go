package jobspec

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"unicode/utf8"
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

// errSyntax is replaced by what encoding/json says of the same text.
var errSyntax = errors.New("not JSON")

// read reads a text whose values nest at most depth levels.
func read(text []byte, depth int) (*document, error) {
	d := &document{text: text, spans: make([]span, 0, min(len(text)/spanBytes+8, spansFirst))}
	r := reader{document: d, depth: depth}
	err := r.value()
	if r.space(); err == nil && r.at < len(text) {
		err = errSyntax
	}
	if errors.Is(err, errSyntax) {
		var whole json.RawMessage
		err = errors.Join(json.Unmarshal(text, &whole)) // its error says where
	}
	if err != nil {
		return nil, err
	}
	return d, nil
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

// reader reads from the left; at is the next byte.
type reader struct {
	*document
	at, depth int
}

func (r *reader) space() {
	for r.at < len(r.text) {
		switch r.text[r.at] {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return
		}
	}
}

// next takes the byte c behind spaces, if it is there.
func (r *reader) next(c byte) bool {
	r.space()
	if r.at < len(r.text) && r.text[r.at] == c {
		r.at++
		return true
	}
	return false
}

func (r *reader) value() error {
	r.space()
	if r.at == len(r.text) {
		return errSyntax
	}
	i := len(r.spans)
	r.spans = append(r.spans, span{start: int32(r.at)})
	if err := r.body(r.text[r.at]); err != nil {
		return err
	}
	r.spans[i].end, r.spans[i].next = int32(r.at), int32(len(r.spans))
	return nil
}

// body takes the value that begins with c.
func (r *reader) body(c byte) error {
	ok := false
	switch c {
	case '{', '[':
		if r.depth--; r.depth < 0 {
			return tooDeep(r.at)
		}
		r.at++
		err := r.inside(c)
		r.depth++
		return err
	case '"':
		ok = r.quoted()
	case 't':
		ok = r.word("true")
	case 'f':
		ok = r.word("false")
	case 'n':
		ok = r.word("null")
	default:
		ok = r.number()
	}
	if !ok {
		return errSyntax
	}
	return nil
}

// inside takes what an object or a list holds, and its end.
func (r *reader) inside(open byte) error {
	end := open + 2 // both pairs are two apart
	if r.next(end) {
		return nil
	}
	for {
		if open == '{' {
			if err := r.key(); err != nil {
				return err
			}
		}
		if err := r.value(); err != nil {
			return err
		}
		if r.next(end) {
			return nil
		}
		if !r.next(',') {
			return errSyntax
		}
	}
}

func (r *reader) key() error {
	r.space()
	start := r.at
	if r.at == len(r.text) || r.text[r.at] != '"' || !r.quoted() {
		return errSyntax
	}
	r.spans = append(r.spans, span{int32(start), int32(r.at), int32(len(r.spans) + 1)})
	if !r.next(':') {
		return errSyntax
	}
	return nil
}

func (r *reader) quoted() bool {
	for i := r.at + 1; i < len(r.text); i++ {
		switch c := r.text[i]; {
		case c == '"':
			r.at = i + 1
			return true
		case c < ' ':
			return false
		case c == '\\':
			n := escape(r.text[i+1:])
			if n == 0 {
				return false
			}
			i += n
		}
	}
	return false
}

// escape is the length of what follows a backslash, 0 when it means nothing.
func escape(s []byte) int {
	switch {
	case len(s) == 0:
	case bytes.IndexByte([]byte(`"\/bfnrt`), s[0]) >= 0:
		return 1
	case s[0] == 'u' && len(s) > 4 && digits(s[1:5], hex) == 4:
		return 5
	}
	return 0
}

func (r *reader) word(w string) bool {
	ok := bytes.HasPrefix(r.text[r.at:], []byte(w))
	r.at += len(w)
	return ok
}

// number takes -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?.
func (r *reader) number() bool {
	s := r.text[r.at:]
	i := 0
	if s[0] == '-' {
		i = 1
	}
	n := digits(s[i:], decimal)
	if n == 0 || n > 1 && s[i] == '0' {
		return false
	}
	i += n
	if i < len(s) && s[i] == '.' {
		if n = digits(s[i+1:], decimal); n == 0 {
			return false
		}
		i += 1 + n
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if n = digits(s[i:], decimal); n == 0 {
			return false
		}
		i += n
	}
	r.at += i
	return true
}

func decimal(c byte) bool { return '0' <= c && c <= '9' }

func hex(c byte) bool { return decimal(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

// digits counts the leading bytes that are digits.
func digits(s []byte, digit func(byte) bool) int {
	for i, c := range s {
		if !digit(c) {
			return i
		}
	}
	return len(s)
}
