package transport

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// userTimeout limits how long sent bytes may stay unacknowledged before the kernel closes the connection. By default the
// kernel retries for minutes with growing pauses, so a connection would stay stalled after a healed network partition. A
// closed connection is dialed again immediately.
const userTimeout = 5 * time.Second

// setUserTimeout sets the timeout of an accepted connection. A failure leaves the kernel's default.
func setUserTimeout(conn net.Conn) {
	if c, ok := conn.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			_ = control("", "", raw)
		}
	}
}

// control is the [net.Dialer] hook that sets the timeout.
func control(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
	})
}
