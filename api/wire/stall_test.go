package wire

import (
	"net"
	"syscall"
	"testing"
)

func TestConnectionsDoNotStandStillForLong(t *testing.T) {
	t.Parallel()
	a := tcpClient(t)
	unstalled(a)
	raw, err := a.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		if ms, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout); err != nil || ms != int(stallTimeout.Milliseconds()) {
			t.Errorf("the bound is %d ms %v", ms, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// tcpClient is the near end of a connection.
func tcpClient(t *testing.T) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
