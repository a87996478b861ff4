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

// outgoing is an answer on its way; gone is closed when it has been written, or was dropped. It takes the place of a pool
// of buffers, because gRPC gives its buffer back to that.
type outgoing struct {
	b    []byte
	gone chan struct{}
}

// pooledBytes is how much a buffer must hold for gRPC to give it back.
const pooledBytes = 1<<10 + 1

func newOutgoing(b encoded) *outgoing {
	if cap(b) < pooledBytes {
		b = append(make([]byte, 0, pooledBytes), b...)
	}
	return &outgoing{b, make(chan struct{})}
}

// Get implements [mem.BufferPool]; nobody takes a buffer of it.
func (o *outgoing) Get(n int) *[]byte { b := make([]byte, n); return &b }

// Put implements [mem.BufferPool].
func (o *outgoing) Put(*[]byte) { close(o.gone) }

// send returns when the client has taken the answer, or is gone. gRPC itself queues what the client does not take, without a
// bound in time or memory, and drops what it has queued with the connection at the latest: whoever does not take an answer loses
// that. What was queued for a call that the client gave up is dropped as soon as the connection takes more; a call that was given
// up at the same moment may have its answer dropped without a word.
func (s sender) send(b encoded) error {
	o := newOutgoing(b)
	if err := s.to.SendMsg(o); err != nil {
		return err
	}
	late := time.NewTimer(s.stall * time.Duration(1+len(b)/portionBytes))
	defer late.Stop()
	var conn proof
	if from, ok := peer.FromContext(s.to.Context()); ok {
		conn, _ = from.AuthInfo.(proof)
	}
	select {
	case <-o.gone:
		return nil
	case <-conn.ended:
		return fault.New(fault.Unavailable, "the client has gone")
	case <-late.C:
	}
	if s.to.Context().Err() == nil && conn.end != nil {
		_ = conn.end()
	}
	return fault.New(fault.Timeout, "the answer was not taken in time")
}
