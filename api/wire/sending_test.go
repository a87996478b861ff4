package wire

import (
	"bytes"
	"encoding/binary"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// sending makes calls frame by frame, as no well-behaved client does. It sends what it is allowed to.
type sending struct {
	*http2.Framer
	conn net.Conn
	mu   sync.Mutex
	more *sync.Cond
	// room is what may be sent on the connection, first on a new call, of on each.
	room, first int
	of          map[uint32]int
	// status is with what gRPC code a call ended.
	status map[uint32]string
	gone   error
}

func send(tb testing.TB, address string, d Dialer) *sending {
	tb.Helper()
	conn, err := d.Dial(tb.Context(), address, ProtocolRPC)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		tb.Fatal(err)
	}
	s := &sending{Framer: http2.NewFramer(conn, conn), conn: conn, room: 65535, first: 65535, of: map[uint32]int{}, status: map[uint32]string{}}
	s.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	s.more = sync.NewCond(&s.mu)
	if err := s.WriteSettings(); err != nil {
		tb.Fatal(err)
	}
	go s.read()
	return s
}

func (s *sending) read() {
	for {
		f, err := s.ReadFrame()
		s.mu.Lock()
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if n, ok := f.Value(http2.SettingInitialWindowSize); ok {
				for id := range s.of {
					s.of[id] += int(n) - s.first
				}
				s.first = int(n)
			}
			if !f.IsAck() {
				err = s.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				err = s.WritePing(true, f.Data)
			}
		case *http2.WindowUpdateFrame:
			if f.StreamID == 0 {
				s.room += int(f.Increment)
			} else {
				s.of[f.StreamID] += int(f.Increment)
			}
		case *http2.MetaHeadersFrame:
			for _, h := range f.Fields {
				if h.Name == "grpc-status" {
					s.status[f.StreamID] = h.Value
				}
			}
		}
		s.gone = err
		s.more.Broadcast()
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// begin begins a call and says how long its request will be.
func (s *sending) begin(tb testing.TB, id uint32, method string, length int) {
	tb.Helper()
	var head bytes.Buffer
	e := hpack.NewEncoder(&head)
	for _, h := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", pathPrefix + method},
		{":authority", "x"},
		{"content-type", "application/grpc+msgp"},
		{"te", "trailers"},
	} {
		_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[id] = s.first
	if err := s.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head.Bytes(), EndHeaders: true}); err != nil {
		tb.Fatal(err)
	}
	s.write(tb, id, binary.BigEndian.AppendUint32([]byte{0}, uint32(length)))
}

func (s *sending) write(tb testing.TB, id uint32, b []byte) {
	tb.Helper()
	s.room -= len(b)
	s.of[id] -= len(b)
	if err := s.WriteData(id, false, b); err != nil {
		tb.Fatal(err)
	}
}

// fill sends as much on each of the calls as the server takes, up to most bytes on each, and returns how much in all.
// It is over when nothing more could be sent for a while.
func (s *sending) fill(tb testing.TB, calls []uint32, most int, quiet time.Duration) int {
	tb.Helper()
	zeros, sent, all := make([]byte, 16<<10), map[uint32]int{}, 0
	last := time.Now()
	for time.Since(last) < quiet {
		s.mu.Lock()
		for _, id := range calls {
			for s.status[id] == "" && s.room > 0 && s.of[id] > 0 && sent[id] < most {
				n := min(len(zeros), s.room, s.of[id], most-sent[id])
				s.write(tb, id, zeros[:n])
				sent[id] += n
				all += n
				last = time.Now()
			}
		}
		s.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	return all
}

// ended waits until a call has ended and returns its gRPC code.
func (s *sending) ended(tb testing.TB, id uint32) int {
	tb.Helper()
	defer time.AfterFunc(time.Minute, func() { _ = s.conn.Close() }).Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.status[id] == "" {
		if s.gone != nil {
			tb.Fatalf("call %d: %v", id, s.gone)
		}
		s.more.Wait()
	}
	n, _ := strconv.Atoi(s.status[id])
	return n
}

func ids(n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(2*i + 1)
	}
	return out
}
