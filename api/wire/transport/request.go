package transport

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/keyed"
)

const (
	// smallBytes is the size up to which messages are handled without limits: heartbeats and most writes are smaller.
	smallBytes = 64 << 10
	// requestsEach and requestsAll limit the requests that are read at once, and the large ones that are served at once, for
	// each client address and in total.
	requestsEach, requestsAll = 8, 32
	// slotTimeout limits how long a request waits to be read or served.
	slotTimeout = 10 * time.Second
	// requestTimeout limits how long a client may take to send one request.
	requestTimeout = time.Minute
)

// requests limits the memory that requests take.
type requests struct {
	reading, large *keyed.Slots
	timeout        time.Duration
}

func newRequests(timeout time.Duration) *requests {
	return &requests{keyed.NewSlots(requestsEach, requestsAll), keyed.NewSlots(requestsEach, requestsAll), timeout}
}

// message is a request before it is decoded.
type message struct{ mem.Buffer }

// receive reads and decodes the request of a call. done must be called when the call has ended.
func (r *requests) receive(ctx context.Context, stream grpc.ServerStream, client string, h wire.Handler) (req any, done func(), err error) {
	wait, cancel := context.WithTimeout(ctx, slotTimeout)
	defer cancel()
	read, err := r.reading.Acquire(wait, client)
	if err != nil {
		return nil, nil, fault.New(fault.Exhausted, "%s: too many requests are being read; retry later: %w", h.Name, err)
	}
	defer read()
	m, err := r.read(stream)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: read the request: %w", h.Name, err)
	}
	defer m.Free()
	done = func() {}
	if m.Len() > smallBytes {
		if done, err = r.large.Acquire(wait, client); err != nil {
			return nil, nil, fault.New(fault.Exhausted, "%s: too many requests above %d KiB are being served; retry later: %w", h.Name, smallBytes>>10, err)
		}
	}
	req = h.New()
	if err := DecodeRequest(ctx, m.ReadOnlyData(), req); err != nil {
		done()
		return nil, nil, fault.New(fault.Invalid, "%s: %w", h.Name, err)
	}
	return req, done, nil
}

// read reads the request; gRPC itself reports a failure to the client. It closes the connection of a client that does not
// send the request in time: nothing else makes RecvMsg return.
func (r *requests) read(stream grpc.ServerStream) (m message, err error) {
	slow := time.AfterFunc(r.timeout, func() {
		if from, ok := peer.FromContext(stream.Context()); ok {
			if conn, ok := from.AuthInfo.(proof); ok {
				_ = conn.end()
			}
		}
	})
	defer slow.Stop()
	err = stream.RecvMsg(&m)
	if err != nil && m.Buffer != nil {
		m.Free()
	}
	return m, err
}
