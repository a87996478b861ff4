package main

import (
	"syscall"
	"unsafe"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// buffer is shared by both streams: output moves on one goroutine, see [logs].
var buffer [16 << 10]byte

// stream moves one output of the task from its pipe to log files named <name>.<n>. The newest index
// grows; a line is cut by the change of files only when it does not fit. The task never waits for a full
// disk: what cannot be written is dropped.
type stream struct {
	pipe  int // -1 when no process writes any more
	dir   int // of the log files; others may use it too
	name  string
	index int64
	file  int // -1 when it could not be opened
	size  int64
	max   int64
	keep  int64
	// moved counts the bytes that came through the pipe.
	moved int64
}

// inTheWay is how many indexes are passed over for what cannot be removed.
const inTheWay = 16

// openLogs opens the directory of the log files. Tasks may write to what lies below AllocDir, and put links there.
func openLogs(spec *frame.Spec) (int, error) {
	const flags = syscall.O_RDONLY | syscall.O_DIRECTORY | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
	dir, rest := dirOf(spec.Stdout), ""
	if spec.AllocDir != "" && below(dir, spec.AllocDir) {
		dir, rest = spec.AllocDir, dir[len(spec.AllocDir)+1:]
	}
	fd, err := syscall.Open(dir, flags, 0)
	for err == nil && rest != "" {
		var name string
		name, rest = cut(rest)
		at := fd
		fd, err = syscall.Openat(at, name, flags, 0)
		_ = syscall.Close(at)
	}
	return fd, err
}

// cut splits a path after its first element.
func cut(path string) (first, rest string) {
	for i := range len(path) {
		if path[i] == '/' {
			return path[:i], path[i+1:]
		}
	}
	return path, ""
}

// newStream continues in the newest file that an earlier attempt of the task left.
func newStream(pipe, dir int, path string, spec *frame.Spec) *stream {
	l := &stream{
		pipe: pipe, dir: dir, name: path[len(dirOf(path))+1:], file: -1,
		max: max(spec.MaxFileBytes, 1), keep: max(spec.MaxFiles, 1),
	}
	l.each(func(n int64) { l.index = max(l.index, n) })
	l.each(func(n int64) {
		if n <= l.index-l.keep {
			l.remove(n)
		}
	})
	l.open()
	return l
}

// each calls do for the index of every file of the log.
func (l *stream) each(do func(int64)) {
	base := l.name + "."
	eachName(l.dir, func(name string) {
		if len(name) > len(base) && name[:len(base)] == base {
			if n := atoi(name[len(base):]); n >= 0 {
				do(int64(n))
			}
		}
	})
}

// open opens the newest file. What is not a file of ours in its place is removed, or passed over: a pipe, a link, or a
// hard link of something else.
func (l *stream) open() {
	const flags = syscall.O_WRONLY | syscall.O_CREAT | syscall.O_APPEND | syscall.O_CLOEXEC | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	for try := range 2 * inTheWay {
		fd, err := syscall.Openat(l.dir, l.name+"."+itoa(l.index), flags, 0o644)
		var st syscall.Stat_t
		switch {
		case err == nil && syscall.Fstat(fd, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFREG && st.Nlink == 1 && int(st.Uid) == syscall.Geteuid():
			l.file, l.size = fd, st.Size
			return
		case err == nil:
			_ = syscall.Close(fd)
		case err != syscall.ENXIO && err != syscall.ELOOP && err != syscall.EISDIR && err != syscall.EAGAIN:
			return
		}
		if l.remove(l.index); try%2 == 1 {
			l.index++
		}
	}
}

func (l *stream) remove(index int64) { _ = unlinkat(l.dir, l.name+"."+itoa(index)) }

// close closes the pipe and the file.
func (l *stream) close() {
	for _, fd := range [2]*int{&l.pipe, &l.file} {
		if *fd >= 0 {
			_ = syscall.Close(*fd)
		}
		*fd = -1
	}
}

// pump moves what is there, at most a few buffers so that the other descriptors get their turn.
func (l *stream) pump() {
	for range 8 {
		if !l.move() {
			return
		}
	}
}

// drain moves what is in the pipe now: another process that holds the pipe open may write without end.
func (l *stream) drain() {
	for left := l.unread(); left > 0 && l.pipe >= 0; {
		before := l.moved
		if !l.move() {
			return
		}
		left -= l.moved - before
	}
}

const (
	fionRead = 0x541b
	// unreadMax is more than a pipe holds, as long as its limit is the kernel's own.
	unreadMax = 1 << 20
)

// unread is how many bytes are in the pipe.
func (l *stream) unread() int64 {
	var n int32
	if _, _, err := syscall.RawSyscall(syscall.SYS_IOCTL, uintptr(l.pipe), fionRead, uintptr(unsafe.Pointer(&n))); err != 0 {
		return unreadMax
	}
	return int64(n)
}

// move reports whether there may be more.
func (l *stream) move() bool {
	if l.pipe < 0 {
		return false
	}
	n, err := syscall.Read(l.pipe, buffer[:])
	if err == syscall.EINTR {
		return true
	}
	if err == syscall.EAGAIN {
		return false
	}
	if err != nil || n <= 0 {
		_ = syscall.Close(l.pipe)
		l.pipe = -1
		return false
	}
	l.moved += int64(n)
	l.write(buffer[:n])
	return true
}

func (l *stream) write(b []byte) {
	for len(b) > 0 {
		if l.file < 0 {
			if l.open(); l.file < 0 {
				return
			}
		}
		n := l.fits(b)
		if n == 0 {
			l.rotate()
			continue
		}
		written, err := syscall.Write(l.file, b[:n])
		if err == syscall.EINTR {
			continue
		}
		if err != nil || written <= 0 {
			return
		}
		l.size += int64(written)
		b = b[written:]
	}
}

// fits returns how much of b belongs into the present file; 0 asks for the next one.
func (l *stream) fits(b []byte) int {
	room := l.max - l.size
	if room >= int64(len(b)) {
		return len(b)
	}
	for n := max(int(room), 0); n > 0; n-- {
		if b[n-1] == '\n' {
			return n
		}
	}
	if l.size > 0 {
		return 0
	}
	return int(room)
}

func (l *stream) rotate() {
	_ = syscall.Close(l.file)
	l.file, l.size = -1, 0
	l.index++
	l.open()
	if gone := l.index - l.keep; gone >= 0 {
		l.remove(gone)
	}
}
