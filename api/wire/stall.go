package wire

import (
	"net"
	"runtime"
	"syscall"
	"time"
)

// stallTimeout is how long sent bytes may stay without acknowledgement. The kernel would try for minutes,
// more and more seldom: a connection over a network that was cut and healed would stand still for longer
// than the cut. One that is closed is dialled again at once.
const stallTimeout = 5 * time.Second

// tcpUserTimeout is TCP_USER_TIMEOUT of tcp(7).
const tcpUserTimeout = 18

// unstalled bounds how long the connection may stand still; where that cannot be done it stays as it is.
func unstalled(conn net.Conn) {
	if c, ok := conn.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			_ = control("", "", raw)
		}
	}
}

// control is the [net.Dialer] hook for the same.
func control(_, _ string, raw syscall.RawConn) error {
	if runtime.GOOS != "linux" {
		return nil
	}
	return raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(stallTimeout.Milliseconds()))
	})
}
