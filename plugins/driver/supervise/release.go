package supervise

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// LeaseEnding ends the names of files that all supervising processes of an allocation lock which have its lease.
const LeaseEnding = ".lease"

// releaseLease takes the lock of a lease from processes that were killed before they came to their task, and that the kernel does
// not end: they never use the volumes, and others of the allocation wait for them before they unmount those. The lock belongs
// to the open file, which all of them have, and which is taken from one for that. The supervising process itself, which may
// be ending and have no program any more, is no task; what it has begun may be one.
func releaseLease(supervising process, begun []process) {
	if slices.ContainsFunc(begun, process.isTask) {
		return
	}
	for _, p := range append(slices.Clip(begun), supervising) {
		p.releaseLease()
	}
}

// isTask reports whether a process has not ended that runs the program of a task, or did before it began to end.
func (p process) isTask() bool {
	now, ok := startTicks(p.pid)
	return ok && now == p.ticks && len(lives([]int{p.pid})) > 0 && !isSupervising(p.pid)
}

func (p process) releaseLease() {
	process, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(process)
	if now, ok := startTicks(p.pid); !ok || now != p.ticks || !isSupervising(p.pid) {
		return
	}
	dir := "/proc/" + strconv.Itoa(p.pid) + "/fd"
	names, _ := os.ReadDir(dir)
	for _, name := range names {
		number, err := strconv.Atoi(name.Name())
		if err != nil {
			continue
		}
		path, err := os.Readlink(dir + "/" + name.Name())
		if err != nil || !strings.HasSuffix(strings.TrimSuffix(path, " (deleted)"), LeaseEnding) {
			continue
		}
		if fd, err := unix.PidfdGetfd(process, number, 0); err == nil {
			_ = unix.Flock(fd, unix.LOCK_UN)
			_ = unix.Close(fd)
		}
	}
}
