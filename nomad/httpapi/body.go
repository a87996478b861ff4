package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"os"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// Bounds of request bodies.
const (
	// jobBytes bounds bodies that hold a job.
	jobBytes = 16 << 20
	// bodyBytes bounds all others.
	bodyBytes = 1 << 20
	// bodyDepth bounds the nesting of objects and arrays.
	bodyDepth = 128
	// trustedBytes is how much room is made for what a caller says that it will send.
	trustedBytes = 64 << 10
)

// errSlow is said of a body that does not come.
var errSlow = fault.New(fault.Invalid, "the request body did not come in time")

// errCut is said of a body that has to give way to others.
var errCut = fault.New(fault.Exhausted, "the request body came slowly while others waited for its place")

// errEmpty is said of a body that must be there.
var errEmpty = fault.New(fault.Invalid, "Request body is empty")

// body reads a whole bounded body of JSON.
func (c *call) body(limit int64) ([]byte, error) {
	data, err := c.bytes(limit)
	if err != nil {
		return nil, err
	}
	return data, checkDepth(data)
}

// bytes reads a whole bounded body; one that says that it is too large is not read at all.
func (c *call) bytes(limit int64) ([]byte, error) {
	if c.r.ContentLength > limit {
		return nil, fault.New(fault.TooLarge, "request body of %d bytes is over the limit of %d", c.r.ContentLength, limit)
	}
	read, err := c.arrive()
	if err != nil {
		return nil, err
	}
	defer read()
	var data bytes.Buffer
	if n := c.r.ContentLength; n > 0 {
		data.Grow(int(min(n, trustedBytes)) + bytes.MinRead)
	}
	_, err = data.ReadFrom(http.MaxBytesReader(c.w, c.r.Body, limit))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, fault.New(fault.TooLarge, "request body is over the limit of %d bytes", limit)
	case errors.Is(err, errCut):
		return nil, errCut
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errSlow
	case err != nil:
		return nil, fault.New(fault.Invalid, "read request body: %w", err)
	}
	return data.Bytes(), nil
}

// arrive waits for a place for the body; read is called when it is there. What is made of it is there as long as the request
// is, and so is the place.
func (c *call) arrive() (read func(), err error) {
	n := c.r.ContentLength
	if c.done != nil || n == 0 {
		return func() {}, nil
	}
	bodies := c.short
	if n < 0 || n > trustedBytes {
		bodies = c.long
	}
	if c.done, err = bodies.enter(c.ctx(), wire.ClientOf(c.ctx())); err != nil {
		return nil, err
	}
	if b, ok := c.r.Body.(*pacedBody); ok {
		b.begin()
		return bodies.reads(b.end), nil
	}
	return func() {}, nil
}

// decode reads a body that must be there into a request type.
func (c *call) decode(limit int64, into any) error {
	data, err := c.body(limit)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return errEmpty
	}
	return c.unmarshal(data, into)
}

// decodeMaybe reads a body that may be missing.
func (c *call) decodeMaybe(into any) error {
	data, err := c.body(bodyBytes)
	if err != nil || len(data) == 0 {
		return err
	}
	return c.unmarshal(data, into)
}

func (c *call) unmarshal(data []byte, into any) error {
	turn := wire.InTurn
	if len(data) > trustedBytes {
		turn = wire.InLongTurn
	}
	return turn(c.ctx(), func() error {
		if err := json.Unmarshal(data, into); err != nil {
			return fault.New(fault.Invalid, "decode request body: %w", err)
		}
		return c.addressed(data)
	})
}

// addressed takes the region and the namespace that the body names where the query names none.
func (c *call) addressed(data []byte) error {
	if c.params.Get("region") != "" && c.params.Get("namespace") != "" {
		return nil
	}
	var body struct{ Region, Namespace string }
	if err := json.Unmarshal(data, &body); err != nil {
		return fault.New(fault.Invalid, "decode request body: %w", err)
	}
	c.query.Region = cmp.Or(c.params.Get("region"), body.Region, c.query.Region)
	c.query.Namespace = cmp.Or(c.params.Get("namespace"), body.Namespace, c.query.Namespace)
	return nil
}

// checkDepth refuses nesting that a decoder would pay for, in one pass and without memory.
func checkDepth(data []byte) error {
	depth, quoted, escaped := 0, false, false
	for _, b := range data {
		switch {
		case escaped:
			escaped = false
		case quoted && b == '\\':
			escaped = true
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{' || b == '[':
			if depth++; depth > bodyDepth {
				return fault.New(fault.Invalid, "request body is nested deeper than %d levels", bodyDepth)
			}
		case b == '}' || b == ']':
			depth--
		}
	}
	return nil
}
