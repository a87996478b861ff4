package supervise

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// lock takes the lock at a state path, which the supervising process inherits and holds for its life: it tells of a
// process that has not come as far as its socket. The file has room for the exit, which is recorded there when the disk
// takes nothing more; behind it is the mark of the task's processes.
func lock(state, mark string) (*os.File, error) {
	fd, err := unix.Open(state+".lock", unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "start the supervising process: %w", err)
	}
	f := os.NewFile(uintptr(fd), state+".lock")
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fault.New(fault.Conflict, "start the supervising process: there is one at %s: %w", state, err)
	}
	if _, err := unix.Pwrite(fd, append(room[:], mark...), 0); err != nil {
		_ = f.Close()
		return nil, fault.New(fault.Unavailable, "start the supervising process: make room for its exit: %w", err)
	}
	return f, nil
}

// room is what the file of the lock holds until there is an exit.
var room [frame.ExitedMax]byte

// markAt is the mark of the task's processes at a state path, while they run; empty when it is not known.
func markAt(state string) string {
	b, err := os.ReadFile(state + ".lock")
	if err != nil || len(b) <= len(room) {
		return ""
	}
	mark := string(b[len(room):])
	if !isMark(mark) {
		return ""
	}
	return mark
}

// locked reports whether a supervising process lives at a state path.
func locked(state string) bool {
	f, err := os.Open(state + ".lock")
	if err != nil {
		return false
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil
}
