package wire

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/open-nomad/open-nomad/api/fault"
)

// sender sends the one answer of a call.
type sender struct {
	to    grpc.ServerStream
	stall time.Duration
}

// outgoing is a long answer on its way; gone is closed when it has been written, or was dropped. It takes the place of a pool
// of buffers, because gRPC gives its buffer back to that.
type outgoing struct {
	b    []byte
	gone chan struct{}
}

// Get implements [mem.BufferPool]; nobody takes a buffer of it.
func (o *outgoing) Get(n int) *[]byte { b := make([]byte, n); return &b }

// Put implements [mem.BufferPool].
func (o *outgoing) Put(*[]byte) { close(o.gone) }

// send returns when the client has taken the answer, or when a short one is on its way. gRPC itself queues what the client
// does not take, without a bound in time or memory; whoever does not take a long answer loses the connection, which is all that
// ends that.
func (s sender) send(b encoded) error {
	if len(b) <= smallBytes {
		return s.to.SendMsg(b)
	}
	o := &outgoing{b, make(chan struct{})}
	if err := s.to.SendMsg(o); err != nil {
		return err
	}
	late := time.NewTimer(s.stall * time.Duration(1+len(b)/portionBytes))
	defer late.Stop()
	select {
	case <-o.gone:
		return nil
	case <-s.to.Context().Done():
		return s.to.Context().Err()
	case <-late.C:
	}
	if from, ok := peer.FromContext(s.to.Context()); ok {
		if p, ok := from.AuthInfo.(proof); ok {
			_ = p.end()
		}
	}
	return fault.New(fault.Timeout, "the answer was not taken in time")
}
