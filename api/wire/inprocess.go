package wire

import (
	"context"
	"reflect"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Direct returns a caller of handlers in the same process.
func Direct(handlers ...Handler) Caller {
	d := direct{}
	for _, h := range handlers {
		d[h.Name] = h
	}
	return d
}

type direct map[string]Handler

// Invoke implements [Caller].
func (d direct) Invoke(ctx context.Context, method string, req, resp any) error {
	h, ok := d[method]
	if !ok {
		return fault.New(fault.Unimplemented, "method %s is not served here", method)
	}
	out, err := h.Serve(ctx, req)
	if err != nil {
		return err
	}
	reflect.ValueOf(resp).Elem().Set(reflect.ValueOf(out).Elem())
	return nil
}
