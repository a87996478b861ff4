package transport_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/certs"
	"github.com/open-nomad/open-nomad/api/wire/transport"
)

// limited runs a port with limits.
func limited(t *testing.T, l transport.Limits) (address string, log *notes, dialer transport.Dialer) {
	t.Helper()
	id, err := certs.SelfMade()
	if err != nil {
		t.Fatal(err)
	}
	log = &notes{}
	port, err := transport.Listen("127.0.0.1:0", id.Server, hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Warn}))
	if err != nil {
		t.Fatal(err)
	}
	port.Limit(l)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = port.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return port.Addr().String(), log, transport.Dialer{TLS: id.Client}
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// closed waits until the other side has closed the connection.
func closed(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); err == nil || err != io.EOF && !strings.Contains(err.Error(), "reset") {
		t.Fatalf("the connection is not closed: %v", err)
	}
}

func TestOneAddressHasSoManyConnections(t *testing.T) {
	t.Parallel()
	address, log, dialer := limited(t, transport.Limits{ConnsPerClient: 3, Handshake: time.Hour})
	var open []net.Conn
	for range 3 {
		open = append(open, dial(t, address))
	}
	closed(t, dial(t, address))
	closed(t, dial(t, address))
	if n := strings.Count(log.String(), "too many"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log)
	}
	_ = open[0].Close()
	for end := time.Now().Add(30 * time.Second); ; {
		conn, err := dialer.Dial(t.Context(), address, wire.ProtocolRaft)
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after one was closed: %v", err)
		}
	}
}

func TestAHandshakeThatStandsStillEnds(t *testing.T) {
	t.Parallel()
	address, _, _ := limited(t, transport.Limits{Handshake: 50 * time.Millisecond})
	closed(t, dial(t, address))
}
