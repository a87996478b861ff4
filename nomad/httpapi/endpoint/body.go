package endpoint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"os"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/admission"
)

// Bounds of request bodies.
const (
	// BodyMax bounds bodies of requests that hold no job, in bytes.
	BodyMax = 1 << 20
	// bodyDepth bounds the nesting of objects and arrays.
	bodyDepth = 128
	// Bounds of the objects, and of all values, in a body: the first so many are free, and there must be so many bytes for
	// each further one. An empty object takes three bytes, and half a KiB in memory.
	objectsFree, objectBytes = 64 << 10, 256
	valuesFree, valueBytes   = 256 << 10, 16
)

// errSlow is said of a body that does not come.
var errSlow = fault.New(fault.Invalid, "the request body did not come in time")

// ErrEmpty is said of a body that must be there.
var ErrEmpty = fault.New(fault.Invalid, "Request body is empty")

// Body reads a whole bounded body of JSON.
func (c *Call) Body(limit int64) ([]byte, error) {
	data, err := c.Bytes(limit)
	if err != nil {
		return nil, err
	}
	return data, checkShape(data)
}

// Bytes reads a whole bounded body; one that says that it is too large is not read at all.
func (c *Call) Bytes(limit int64) ([]byte, error) {
	if c.R.ContentLength > limit {
		return nil, fault.New(fault.TooLarge, "request body of %d bytes is over the limit of %d", c.R.ContentLength, limit)
	}
	read, err := c.arrive()
	if err != nil {
		return nil, err
	}
	defer read()
	var data bytes.Buffer
	if n := c.R.ContentLength; n > 0 {
		data.Grow(int(min(n, admission.Long)) + bytes.MinRead)
	}
	_, err = data.ReadFrom(http.MaxBytesReader(c.W, c.R.Body, limit))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, fault.New(fault.TooLarge, "request body is over the limit of %d bytes", limit)
	case errors.Is(err, admission.ErrCut):
		return nil, admission.ErrCut
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errSlow
	case err != nil:
		return nil, fault.New(fault.Invalid, "read request body: %w", err)
	}
	return data.Bytes(), nil
}

// arrive waits for a place for the body; read is called when it is there. What is made of it is there as long as the request
// is, and so is the place.
func (c *Call) arrive() (read func(), err error) {
	if c.done != nil || c.R.ContentLength == 0 {
		return func() {}, nil
	}
	read, c.done, err = c.bodies.Enter(c.Context(), wire.ClientOf(c.Context()), c.R)
	return read, err
}

// Decode reads a body that must be there into a request type.
func (c *Call) Decode(limit int64, into any) error {
	data, err := c.Body(limit)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return ErrEmpty
	}
	return c.Unmarshal(data, into)
}

// DecodeMaybe reads a body that may be missing.
func (c *Call) DecodeMaybe(into any) error {
	data, err := c.Body(BodyMax)
	if err != nil || len(data) == 0 {
		return err
	}
	return c.Unmarshal(data, into)
}

// Unmarshal decodes a body that was read, in the turn of the client, and takes the region and the namespace in it.
func (c *Call) Unmarshal(data []byte, into any) error {
	turn := wire.InTurn
	if len(data) > admission.Long {
		turn = wire.InLongTurn
	}
	return turn(c.Context(), func() error {
		if err := json.Unmarshal(data, into); err != nil {
			return fault.New(fault.Invalid, "decode request body: %w", err)
		}
		return c.addressed(data)
	})
}

// addressed takes the region and the namespace that the body names where the query names none.
func (c *Call) addressed(data []byte) error {
	if c.Params.Get("region") != "" && c.Params.Get("namespace") != "" {
		return nil
	}
	var body struct{ Region, Namespace string }
	if err := json.Unmarshal(data, &body); err != nil {
		return fault.New(fault.Invalid, "decode request body: %w", err)
	}
	c.Query.Region = cmp.Or(c.Params.Get("region"), body.Region, c.Query.Region)
	c.Query.Namespace = cmp.Or(c.Params.Get("namespace"), body.Namespace, c.Query.Namespace)
	return nil
}

// checkShape refuses nesting that a decoder would pay for, and more objects and values than what they could say explains,
// in one pass and without memory.
func checkShape(data []byte) error {
	depth, objects, values, quoted, escaped := 0, 0, 0, false, false
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
			values++ // the first one in it
			if b == '{' {
				objects++
			}
		case b == '}' || b == ']':
			depth--
		case b == ',':
			values++
		}
	}
	if most := objectsFree + len(data)/objectBytes; objects > most {
		return fault.New(fault.TooLarge, "%d objects in a request body of %d bytes; at most %d are possible", objects, len(data), most)
	}
	if most := valuesFree + len(data)/valueBytes; values > most {
		return fault.New(fault.TooLarge, "%d values in a request body of %d bytes; at most %d are possible", values, len(data), most)
	}
	return nil
}
