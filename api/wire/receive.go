package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/open-nomad/open-nomad/api/fault"
)

const (
	// prefixBytes stand before each message: whether it is compressed, and its length.
	prefixBytes = 5
	// portionBytes is how much of a request is asked for at once.
	portionBytes = 1 << 20
)

// transportStream is what gRPC's stream of a call can do below its messages: tell how long one is before it is read.
type transportStream interface {
	ReadMessageHeader([]byte) error
	Read(int) (mem.BufferSlice, error)
	WriteStatus(*status.Status) error
}

// receiver reads the one request of a call.
type receiver struct {
	stream transportStream
	stall  time.Duration
	timer  *time.Timer
}

// newReceiver makes a receiver that ends the call when the sender stands still.
func newReceiver(stream transportStream, stall time.Duration) receiver {
	end := func() { _ = stream.WriteStatus(status.Convert(toStatus(errLate))) }
	return receiver{stream, stall, time.AfterFunc(stall, end)}
}

var errLate = fault.New(fault.Timeout, "the request did not come in time")

// length waits for a request and says how many bytes it has.
func (r receiver) length() (int, error) {
	var prefix [prefixBytes]byte
	if err := r.timed(func() error { return r.stream.ReadMessageHeader(prefix[:]) }); err != nil {
		return 0, err
	}
	n := binary.BigEndian.Uint32(prefix[1:])
	switch {
	case prefix[0] != 0:
		return 0, fault.New(fault.Unimplemented, "compressed requests are not read")
	case n > MaxMessageBytes:
		return 0, fault.New(fault.TooLarge, "the request has %d bytes, more than %d MiB", n, MaxMessageBytes>>20)
	}
	return int(n), nil
}

// body reads a request of n bytes, and that nothing follows it. The buffer is the caller's, to be freed.
func (r receiver) body(n int) (mem.Buffer, error) {
	whole := mem.DefaultBufferPool().Get(n)
	buf := mem.NewBuffer(whole, mem.DefaultBufferPool())
	for at := 0; at < n; {
		err := r.timed(func() error {
			portion, err := r.stream.Read(min(n-at, portionBytes))
			if err == nil {
				at += portion.CopyTo((*whole)[at:])
				portion.Free()
			}
			return err
		})
		if err != nil {
			buf.Free()
			return nil, err
		}
	}
	var more [1]byte
	err := r.timed(func() error { return r.stream.ReadMessageHeader(more[:]) })
	if errors.Is(err, io.EOF) {
		return buf, nil
	}
	buf.Free()
	if err == nil {
		err = fault.New(fault.Invalid, "more than one request in a call")
	}
	return nil, err
}

// timed reads something that must come in time.
func (r receiver) timed(read func() error) error {
	r.timer.Reset(r.stall)
	err := read()
	if !r.timer.Stop() {
		return errLate
	}
	return err
}

// notReceived is why there is no request; what has no class is the caller's doing.
func notReceived(method string, err error) error {
	class := fault.Of(err)
	if class == fault.Internal {
		class = fault.Invalid
	}
	return fault.Wrap(class, fmt.Errorf("read the request of %s: %w", method, err))
}
