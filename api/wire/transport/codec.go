package transport

import (
	"context"
	"fmt"

	"github.com/tinylib/msgp/msgp"
	"google.golang.org/grpc/mem"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/shape"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
)

// codec encodes plain structs with msgp; it is the gRPC content subtype "msgp".
type codec struct{}

func (codec) Name() string { return "msgp" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.(encoded); ok {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	b, err := encode(v)
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	if m, ok := v.(*message); ok {
		m.Buffer = buf
		return nil
	}
	defer buf.Free()
	return decode(buf.ReadOnlyData(), v)
}

// DecodeRequest decodes and checks a request.
func DecodeRequest(ctx context.Context, b []byte, into any) error {
	work := func() error {
		if err := rejectSparse(b); err != nil {
			return err
		}
		if err := decode(b, into); err != nil {
			return err
		}
		return shape.Input(into)
	}
	if len(b) <= smallBytes {
		return work()
	}
	return cpulimit.Long(ctx, work)
}

// encoded is an encoded reply.
type encoded []byte

// sizedMax limits the maximum encoded size (Msgsize) of a reply, in messages. Replies above it are rejected without being
// encoded; that size is up to four times the real one.
const sizedMax = 4

// encodeAnswer encodes a reply. It returns a fault of class TooLarge when the reply exceeds MaxMessageBytes.
func encodeAnswer(ctx context.Context, method string, v any) (b encoded, err error) {
	if p, ok := v.(partly); ok {
		v = p.Sent()
	}
	size := sizeOf(v)
	work := func() (err error) {
		b, err = encodeSized(v, size)
		return err
	}
	switch {
	case size > sizedMax*MaxMessageBytes:
		return nil, tooLarge(method)
	case size <= smallBytes:
		err = work()
	default:
		err = cpulimit.Short(ctx, work)
	}
	if err == nil && len(b) > MaxMessageBytes {
		return nil, tooLarge(method)
	}
	return b, err
}

// sizeOf returns the maximum encoded size of a message.
func sizeOf(v any) int {
	if s, ok := v.(msgp.Sizer); ok {
		return s.Msgsize()
	}
	return 0
}

func tooLarge(method string) error {
	return fault.New(fault.TooLarge, "the reply of %s exceeds %d MiB; query a server of that region, or request less", method, MaxMessageBytes>>20)
}

// partly is a message that is sent without some of its fields.
type partly interface{ Sent() any }

func encode(v any) ([]byte, error) {
	if p, ok := v.(partly); ok {
		v = p.Sent()
	}
	return encodeSized(v, sizeOf(v))
}

func encodeSized(v any, size int) ([]byte, error) {
	m, ok := v.(msgp.Marshaler)
	if !ok {
		return nil, fault.New(fault.Internal, "message %T has no msgp encoding", v)
	}
	return m.MarshalMsg(make([]byte, 0, size))
}

// decode decodes one message; v does not refer to b afterwards.
func decode(b []byte, v any) error {
	u, ok := v.(msgp.Unmarshaler)
	if !ok {
		return fault.New(fault.Internal, "message %T has no msgp encoding", v)
	}
	rest, err := u.UnmarshalMsg(b)
	if err != nil {
		return fmt.Errorf("decode %T: %w", v, err)
	}
	if len(rest) > 0 {
		return fault.New(fault.Invalid, "decode %T: %d bytes left over", v, len(rest))
	}
	return nil
}
