package endpoint

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
	"github.com/open-nomad/open-nomad/internal/keyed"
)

// Limits of request bodies.
const (
	// BodyMax limits bodies of requests without a job, in bytes.
	BodyMax = 1 << 20
	// smallBody is the size above which few bodies may be in memory at once.
	smallBody = 64 << 10
	// bodyDepth limits the nesting of objects and arrays.
	bodyDepth = 128
	// Limits of the objects, and of all values, in a body: a number, and one more for each so many bytes. An empty object
	// takes three bytes of JSON, and half a KiB of memory.
	objectsFree, objectBytes = 64 << 10, 256
	valuesFree, valueBytes   = 256 << 10, 16
)

var errSlow = fault.New(fault.Invalid, "the client did not send the request body in time")

// ErrEmpty means that a required body is missing.
var ErrEmpty = fault.New(fault.Invalid, "Request body is empty")

// bodies limits the request bodies in memory, for each client address and in total.
type bodies struct{ large, small *keyed.Slots }

func newBodies() bodies { return bodies{keyed.NewSlots(4, 32), keyed.NewSlots(256, 4096)} }

// acquire waits for a slot for the body of a request, until release is called.
func (b bodies) acquire(ctx context.Context, r *http.Request) (release func(), err error) {
	slots := b.small
	if r.ContentLength < 0 || r.ContentLength > smallBody {
		slots = b.large
	}
	release, err = slots.Acquire(ctx, cpulimit.ClientOf(ctx))
	if err != nil {
		return nil, fault.New(fault.Exhausted, "too many request bodies of this size are in memory; retry later: %w", err)
	}
	return release, nil
}

// Body reads a JSON body of at most limit bytes.
func (c *Call) Body(limit int64) ([]byte, error) {
	data, err := c.Bytes(limit)
	if err != nil {
		return nil, err
	}
	return data, checkStructure(data)
}

// Bytes reads a body of at most limit bytes. A larger Content-Length is refused before anything is read.
func (c *Call) Bytes(limit int64) ([]byte, error) {
	if c.R.ContentLength > limit {
		return nil, fault.New(fault.TooLarge, "request body of %d bytes is over the limit of %d", c.R.ContentLength, limit)
	}
	if c.done == nil && c.R.ContentLength != 0 {
		release, err := c.bodies.acquire(c.Context(), c.R)
		if err != nil {
			return nil, err
		}
		c.done = release
	}
	var data bytes.Buffer
	if n := c.R.ContentLength; n > 0 {
		data.Grow(int(min(n, smallBody)) + bytes.MinRead)
	}
	_, err := data.ReadFrom(http.MaxBytesReader(c.W, c.R.Body, limit))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, fault.New(fault.TooLarge, "request body is over the limit of %d bytes", limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errSlow
	case err != nil:
		return nil, fault.New(fault.Invalid, "read request body: %w", err)
	}
	return data.Bytes(), nil
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

// Unmarshal decodes a body, and sets the region and the namespace of the query from it.
func (c *Call) Unmarshal(data []byte, into any) error {
	run := cpulimit.Short
	if len(data) > smallBody {
		run = cpulimit.Long
	}
	return run(c.Context(), func() error {
		if err := json.Unmarshal(data, into); err != nil {
			return fault.New(fault.Invalid, "decode request body: %w", err)
		}
		return c.addressed(data)
	})
}

// addressed sets the region and the namespace from the body where the query has none.
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
