package wire

import (
	"context"
	"fmt"

	"github.com/tinylib/msgp/msgp"
	"google.golang.org/grpc/mem"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/shape"
)

// codec carries plain structs as msgp; it is the gRPC content subtype "msgp".
type codec struct{}

func (codec) Name() string { return "msgp" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch b := v.(type) {
	case encoded:
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	case *outgoing:
		return mem.BufferSlice{mem.NewBuffer(&b.b, b)}, nil
	}
	b, err := encode(v)
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	return decode(buf.ReadOnlyData(), v)
}

// decodeRequest decodes a request and looks at it.
func decodeRequest(ctx context.Context, b []byte, into any) error {
	work := func() error {
		if err := dense(b); err != nil {
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
	return InLongTurn(ctx, work)
}

// encoded is an answer as it is sent.
type encoded []byte

// sizedMax is how much longer than a message an answer may be by its greatest possible size, which is some times its
// own, so that it is worth to encode it.
const sizedMax = 4

// answerSize is the greatest possible size of an answer as it is sent.
func answerSize(v any) int {
	if p, ok := v.(partly); ok {
		v = p.Sent()
	}
	return sizeOf(v)
}

// encodeAnswer encodes an answer, or says that it fits no message.
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
		err = InTurn(ctx, work)
	}
	if err == nil && len(b) > MaxMessageBytes {
		return nil, tooLarge(method)
	}
	return b, err
}

// sizeOf is the greatest possible size of a message.
func sizeOf(v any) int {
	if s, ok := v.(msgp.Sizer); ok {
		return s.Msgsize()
	}
	return 0
}

func tooLarge(method string) error {
	return fault.New(fault.TooLarge, "the answer of %s has more than %d MiB: ask a server of that region, or for less", method, MaxMessageBytes>>20)
}

// partly is a message of which a part does not go between processes.
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

// decode reads one message; nothing in v refers to b afterwards.
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
