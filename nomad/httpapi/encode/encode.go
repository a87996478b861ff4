// Package encode writes the responses of endpoints as JSON: lists row by row and piece by piece, so that a long list is
// never in memory as a whole, and each piece when it is the client's turn.
package encode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"sync"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
)

// answerBytes is how much of a response is encoded before it is sent.
const answerBytes = 32 << 10

// indent is that of responses for people.
const indent = "    "

// pieces encodes a response piece by piece, so that a long list is never in memory as a whole.
type pieces struct {
	bytes.Buffer
	json *json.Encoder
	ctx  context.Context
	w    http.ResponseWriter
	sent bool
}

var spare = sync.Pool{New: func() any {
	p := &pieces{}
	p.json = json.NewEncoder(&p.Buffer)
	p.json.SetEscapeHTML(false)
	return p
}}

// ErrGone is returned when the client no longer reads the response.
var ErrGone = errors.New("the client closed the connection")

// Answer encodes the response to a request, indented when pretty is set. After an error before anything was sent, the
// status can still be set; after a later one the connection is cut.
func Answer(ctx context.Context, w http.ResponseWriter, out any, pretty bool) error {
	p := spare.Get().(*pieces)
	p.ctx, p.w, p.sent = ctx, w, false
	p.Reset()
	err := p.answer(out, pretty)
	p.ctx, p.w = nil, nil
	if p.Cap() <= 2*answerBytes {
		spare.Put(p)
	}
	return err
}

func (p *pieces) answer(out any, pretty bool) error {
	if n, at := rowsOf(out); at != nil {
		if err := p.list(n, at, pretty); err != nil {
			return err
		}
	} else if err := p.turn(func() error { return p.value(out, "", pretty) }); err != nil {
		return err
	}
	if pretty {
		p.WriteByte('\n')
	}
	p.send()
	return nil
}

// views are rows of which each is made when it is encoded.
type views[T any] struct {
	rows []*T
	view func(*T) any
}

func (v views[T]) len() int     { return len(v.rows) }
func (v views[T]) at(i int) any { return v.view(v.rows[i]) }

// Views returns rows that are made one by one when they are encoded; a view may reuse the memory of the previous one.
func Views[T any](rows []*T, view func(*T) any) any { return views[T]{rows, view} }

// rowsOf are the rows of a list; at is nil for anything else.
func rowsOf(out any) (n int, at func(i int) any) {
	if v, ok := out.(interface {
		len() int
		at(i int) any
	}); ok {
		return v.len(), v.at
	}
	rows := reflect.ValueOf(out)
	if rows.Kind() != reflect.Slice || rows.Type().Elem().Kind() == reflect.Uint8 {
		return 0, nil
	}
	return rows.Len(), func(i int) any { return rows.Index(i).Interface() }
}

func (p *pieces) list(n int, at func(int) any, pretty bool) error {
	prefix, begin, between, end := "", "[", ",", "]"
	if pretty && n > 0 {
		prefix, begin, between, end = indent, "[\n"+indent, ",\n"+indent, "\n]"
	}
	p.WriteString(begin)
	for i := 0; i < n; {
		err := p.turn(func() error {
			for ; i < n && p.Len() < answerBytes; i++ {
				if i > 0 {
					p.WriteString(between)
				}
				if err := p.value(at(i), prefix, pretty); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if p.Len() >= answerBytes && !p.send() {
			return ErrGone // the client no longer reads it
		}
	}
	p.WriteString(end)
	return nil
}

// turn encodes when it is the client's turn, and sends nothing meanwhile. When that fails, a response that has begun is
// cut, so that it does not look complete.
func (p *pieces) turn(encode func() error) error {
	err := cpulimit.Short(p.ctx, encode)
	if err != nil && p.sent {
		panic(http.ErrAbortHandler)
	}
	return err
}

// value encodes a value without the end of the line that encoders write.
func (p *pieces) value(v any, prefix string, pretty bool) error {
	p.json.SetIndent("", "")
	if pretty {
		p.json.SetIndent(prefix, indent)
	}
	if err := p.json.Encode(v); err != nil {
		return fault.New(fault.Internal, "encode answer: %w", err)
	}
	p.Truncate(p.Len() - 1)
	return nil
}

// send sends what was encoded so far and reports whether it arrived.
func (p *pieces) send() bool {
	_, err := p.w.Write(p.Bytes())
	p.Reset()
	p.sent = true
	return err == nil
}
