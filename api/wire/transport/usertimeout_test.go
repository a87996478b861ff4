package transport

import (
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestConnectionsHaveAUserTimeout(t *testing.T) {
	t.Parallel()
	a := tcpClient(t)
	setUserTimeout(a)
	raw, err := a.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		if ms, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT); err != nil || ms != int(userTimeout.Milliseconds()) {
			t.Errorf("the timeout is %d ms %v", ms, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// tcpClient returns the client end of a connection.
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
