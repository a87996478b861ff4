package main

import (
	"syscall"
	"unsafe"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

const (
	clockBoottime  = 7
	umountNoFollow = 8
	// againMS is the pause between tries to end a task whose lease has ended, or to unmount what others use.
	againMS = 100
	// lookMS bounds a wait for the file systems: its clock stops while the host sleeps, and the lease's does not.
	lookMS = 1000
	// lateNS is how long there is for what begins when all of the lease has ended already, as after a sleep.
	lateNS = 2e9

	timerAbsolute = 1
)

// lease is the promise that nothing of the task reaches its volumes any more when no server was heard for too
// long. It is kept here since the agent may be dead. Times are of CLOCK_BOOTTIME, which counts while the host
// sleeps: in nanoseconds after from the task is killed (stop), what is not written back is cut off from its
// storage (cut), and nothing is waited for any more (end). A stop of 0 never comes.
type lease struct {
	from, stop, cut, end int64

	home            int // the host's mount namespace; -1 when the thread is there
	unmount, beside []string
	seen            *sight
	// file is locked by all processes that share the lease, path is its name; -1 when no other process matters. shared
	// is set when there are users that do not lock it.
	file   int
	path   string
	shared bool

	// ended is set when the task is killed because its lease has ended, released when nothing needs to be kept any
	// more, closed when the volumes were removed.
	ended, released, closed bool
	// lapsed is set when a renewal came of a time after the end: the volumes may be another process's now.
	lapsed bool
	// timer ends a wait at the end of the lease, also when the host slept; -1 when there is none.
	timer int
	// cutOff is set when a task that does not end was cut off.
	cutOff bool
}

func takeLease(spec *frame.Spec) (lease, *frame.Failed) {
	l := lease{
		from: spec.LeaseFrom, stop: spec.Lease, cut: spec.LeaseCut, end: spec.LeaseEnd, unmount: spec.Unmount, beside: spec.Beside,
		path: spec.LeaseFile, shared: spec.Shared, home: -1, timer: -1, file: -1,
	}
	if l.stop > 0 {
		if f := l.join(); f != nil {
			return l, f
		}
		l.home, _ = syscall.Open("/proc/thread-self/ns/mnt", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if fd, _, err := syscall.RawSyscall(sysTimerfdCreate, clockBoottime, syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0); err == 0 {
			l.timer = int(fd)
		}
		l.arm()
	}
	return l, nil
}

func (l *lease) renew(from int64) {
	if from <= l.from {
		return
	}
	if l.lapsed = l.lapsed || l.stop > 0 && from >= l.from+l.stop && bootTime() >= l.from+l.stop; !l.lapsed {
		l.from = from
		l.look()
		l.arm()
	}
}

// arm sets the timer to the end of the lease.
func (l *lease) arm() {
	if l.timer < 0 {
		return
	}
	at := [2]syscall.Timespec{1: syscall.NsecToTimespec(l.from + l.stop)}
	_, _, _ = syscall.RawSyscall6(sysTimerfdSettime, uintptr(l.timer), timerAbsolute, uintptr(unsafe.Pointer(&at)), 0, 0, 0)
}

// alarm is what is readable at the end of the lease.
func (l *lease) alarm() int32 {
	if l.ended || l.stop <= 0 {
		return -1
	}
	return int32(l.timer)
}

// wait is for how many milliseconds nothing needs to be done; negative means indefinitely.
func (l *lease) wait() int64 {
	switch {
	case l.stop <= 0:
		return -1
	case l.ended:
		return againMS
	}
	return l.until(l.stop) + 1
}

// until is how many milliseconds are left.
func (l *lease) until(at int64) int64 { return max(l.from+at-bootTime(), 0) / 1e6 }

// over reports whether the task must end. It stays so: the mounts may be removed now.
func (l *lease) over() bool {
	return l.ended || l.lapsed || l.stop > 0 && bootTime() >= l.from+l.stop
}

// overdue reports whether what is not written back must be cut off now.
func (l *lease) overdue() bool { return l.over() && bootTime() >= l.from+l.cut }

// kept reports whether there is a lease that has not ended.
func (l *lease) kept() bool { return l.stop > 0 && !l.released && !l.over() }

// finish closes the lease when it has ended or was released, once nothing but keeping it is left to do.
func (l *lease) finish(gone bool) {
	if l.stop <= 0 || l.kept() {
		return
	}
	if !l.released && !l.closed {
		l.close(gone)
	}
	l.drop()
	l.stop = 0
}

// leave goes back to the host's mounts: a namespace of the task's own would keep its volumes busy.
func (l *lease) leave() {
	if l.home < 0 {
		return
	}
	_, _, _ = syscall.RawSyscall(sysSetns, uintptr(l.home), syscall.CLONE_NEWNS, 0)
	_ = syscall.Close(l.home)
	l.home = -1
}

// sever cuts off what a task that does not end still writes, once.
func (l *lease) sever() {
	if l.overdue() && !l.cutOff {
		l.cutOff = true
		l.begin(l.unmount, l.cutMount)
	}
}

// close takes the volumes away from the host at the end of the lease: data is written back first, and cut off when
// that takes too long. gone reports that nothing of the task is left. Then others who have the lease do it after their
// own end. While a process may write, mounts stay until they are cut off, because an unmount would hide them from the
// cut-off.
func (l *lease) close(gone bool) {
	l.closed = true
	if gone && !l.alone() {
		return
	}
	if !l.overdue() && l.begin(distinct(l.unmount), l.synced).ended(l, l.cut) {
		if gone && !l.shared {
			l.begin(l.unmount[:min(1, len(l.unmount))], l.unmountAll).ended(l, l.cut)
		} else {
			l.watch()
		}
	}
	if l.left() {
		l.begin(l.unmount, l.cutMount).ended(l, l.last())
	}
}

// watch waits until nothing is mounted, or must be cut off.
func (l *lease) watch() {
	for left := l.until(l.cut); left > 0 && l.left(); left = l.until(l.cut) {
		poll([]pollFD{{-1, 0, 0}}, min(left, againMS))
	}
}

// last is until when what is begun now is waited for.
func (l *lease) last() int64 {
	if now := bootTime() - l.from; now >= l.end {
		return now + lateNS
	}
	return l.end
}

// left reports whether something is still mounted. A table that cannot be read does not prove that nothing is.
func (l *lease) left() (yes bool) {
	table := mountTable()
	if table == nil {
		return true
	}
	eachMount(table, func(id, _, _, at string) { yes = yes || listed(at, l.unmount) && l.listedAs(id, at) })
	return yes
}

// unmountAll unmounts in order, and waits for others who use a mount while there is time.
func (l *lease) unmountAll(string) {
	for _, p := range l.unmount {
		for l.holds(p) && syscall.Unmount(p, umountNoFollow) == syscall.EBUSY && l.until(l.cut) > 0 {
			poll([]pollFD{{-1, 0, 0}}, againMS)
		}
	}
}

// efforts are threads that file systems may hold up; they end with the process.
type efforts struct{ note, left int }

// begin does something with each path in a thread of its own. Those are in the host's mount namespace, for the
// runtime never makes one from a thread that a goroutine is locked to.
func (l *lease) begin(paths []string, do func(path string)) *efforts {
	p := [2]int{-1, -1}
	_ = syscall.Pipe2(p[:], syscall.O_CLOEXEC) // without it the end is not noticed
	for _, path := range paths {
		go func() {
			do(path)
			b := [1]byte{1}
			_, _ = syscall.Write(p[1], b[:])
		}()
	}
	return &efforts{p[0], len(paths)}
}

// ended waits for all threads, no longer than to a time of the lease.
func (e *efforts) ended(l *lease, at int64) bool {
	var b [1]byte
	for e.left > 0 {
		fds := [1]pollFD{{int32(e.note), pollIn, 0}}
		poll(fds[:], min(l.until(at)+1, lookMS))
		if fds[0].revents == 0 {
			if l.until(at) <= 0 {
				break
			}
			continue
		}
		if n, _ := syscall.Read(e.note, b[:]); n > 0 {
			e.left--
		}
	}
	return e.left == 0
}
