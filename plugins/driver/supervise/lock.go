package supervise

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// lock takes the lock at a state path, which the supervising process inherits and holds for its life. The lock shows a
// process that has not come as far as its socket. The file reserves space for the exit, which is recorded there when
// the disk is full; behind it is the mark of the task's processes.
func lock(state, mark string) (*os.File, error) {
	f, err := hold(state)
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteAt(append(room[:], mark...), 0); err != nil {
		_ = f.Close()
		return nil, fault.New(fault.Unavailable, "start the supervising process: make room for its exit: %w", err)
	}
	return f, nil
}

// holdTries and holdPause bound the wait for one who removes what a supervising process has left.
const (
	holdTries = 100
	holdPause = 20 * time.Millisecond
)

// hold makes and locks the file of the lock. What it locks is what has the name: it may be removed meanwhile.
func hold(state string) (*os.File, error) {
	for range holdTries {
		f, err := os.OpenFile(state+".lock", os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fault.New(fault.Unavailable, "start the supervising process: %w", err)
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && isNamed(f) {
			return f, nil
		}
		_ = f.Close()
		if err != nil {
			time.Sleep(holdPause)
		}
	}
	return nil, fault.New(fault.Conflict, "start the supervising process: there is one at %s", state)
}

// isNamed reports whether a file has a name still.
func isNamed(f *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && st.Nlink > 0
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
