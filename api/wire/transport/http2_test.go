package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api/wire"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// http2Client makes calls frame by frame, as a hostile client may.
type http2Client struct {
	*http2.Framer
	conn net.Conn
	mu   sync.Mutex
	more *sync.Cond
	// status has the gRPC codes of the calls that have ended.
	status map[uint32]string
	err    error
}

func dialHTTP2(t *testing.T, address string, d Dialer) *http2Client {
	t.Helper()
	conn, err := d.Dial(t.Context(), address, wire.ProtocolRPC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	s := &http2Client{Framer: http2.NewFramer(conn, conn), conn: conn, status: map[uint32]string{}}
	s.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	s.more = sync.NewCond(&s.mu)
	if err := s.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	go s.read()
	return s
}

func (s *http2Client) read() {
	for {
		f, err := s.ReadFrame()
		s.mu.Lock()
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = s.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				err = s.WritePing(true, f.Data)
			}
		case *http2.MetaHeadersFrame:
			for _, h := range f.Fields {
				if h.Name == "grpc-status" {
					s.status[f.StreamID] = h.Value
				}
			}
		}
		s.err = err
		s.more.Broadcast()
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// begin begins a call with a request of that length and sends nothing of the request.
func (s *http2Client) begin(t *testing.T, id uint32, method string, length int) {
	t.Helper()
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
	if err := s.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head.Bytes(), EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	if err := s.WriteData(id, false, binary.BigEndian.AppendUint32([]byte{0}, uint32(length))); err != nil {
		t.Fatal(err)
	}
}

// wait waits, for a minute at most, until done returns true or the connection has ended, and returns why that ended.
func (s *http2Client) wait(done func() bool) error {
	late := time.AfterFunc(time.Minute, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.err = errors.New("nothing happens")
		s.more.Broadcast()
	})
	defer late.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !done() && s.err == nil {
		s.more.Wait()
	}
	return s.err
}

// ended waits until a call has ended and returns its gRPC code.
func (s *http2Client) ended(t *testing.T, id uint32) int {
	t.Helper()
	if err := s.wait(func() bool { return s.status[id] != "" }); err != nil {
		t.Fatalf("call %d: %v", id, err)
	}
	n, _ := strconv.Atoi(s.status[id])
	return n
}
