package templates

import (
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// listen makes a socket that only the holder of a descriptor can connect to: its file is removed before anybody can find it.
// The program connects by the path of the descriptor, as a user without rights.
func listen() (net.Listener, *os.File, error) {
	dir, err := os.MkdirTemp("", "nomad-template-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	d, err := os.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	// The path by the descriptor is short: a socket address holds 108 bytes.
	name := filepath.Join("/proc/self/fd", strconv.Itoa(int(d.Fd())), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, nil, err
	}
	l.SetUnlinkOnClose(false)
	path := filepath.Join(dir, "s")
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		err = os.Chmod(path, 0o666) //nolint:gosec // the directory is the agent's alone
	}
	if err != nil {
		_ = l.Close()
		return nil, nil, err
	}
	return l, os.NewFile(uintptr(fd), path), nil
}
