package dirs

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
)

// socketName is the socket in the secrets directory of a task, and socketMode its mode: the user of the task may be anyone.
const (
	socketName = "api.sock"
	socketMode = 0o666
)

// Listen makes the API socket of a task. It removes what has its name, and follows no links. Closing the listener does not
// remove the socket; see [Alloc.RemoveSocket].
func (a Alloc) Listen(task string) (net.Listener, error) {
	at, err := a.openSecrets(task)
	if err != nil {
		return nil, err
	}
	defer unix.Close(at)
	if err := unix.Unlinkat(at, socketName, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("make socket of task %s: remove the old one: %w", task, err)
	}
	// The path by the descriptor is short: a socket address holds 108 bytes. Binding follows no link in the last element.
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: descriptor(at) + "/" + socketName, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("make socket of task %s: %w", task, err)
	}
	l.SetUnlinkOnClose(false)
	if err := openTo(at); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("make socket of task %s: set its mode: %w", task, err)
	}
	return l, nil
}

// openTo sets the mode of the new socket in a directory, where the task may have put something else meanwhile.
func openTo(at int) error {
	fd, err := unix.Openat(at, socketName, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK || st.Nlink != 1 || int(st.Uid) != os.Geteuid() {
		return fault.New(fault.Conflict, "the task has replaced it")
	}
	return unix.Chmod(descriptor(fd), socketMode)
}

// RemoveSocket removes the API socket of a task; a missing one is no error.
func (a Alloc) RemoveSocket(task string) error {
	at, err := a.openSecrets(task)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := unix.Unlinkat(at, socketName, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove socket of task %s: %w", task, err)
	}
	return nil
}

// openSecrets opens the secrets directory of a task, which may be a mount.
func (a Alloc) openSecrets(task string) (int, error) {
	base, err := openDir(unix.AT_FDCWD, a.dir)
	if err != nil {
		return -1, said(task, err)
	}
	defer unix.Close(base)
	fd, err := unix.Openat2(base, task+"/"+secretsName, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return -1, said(task, err)
	}
	return fd, nil
}

// descriptor is the path of an open file of this process.
func descriptor(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
