package main

import (
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// buffer is shared by both streams: output moves on one goroutine.
var buffer [16 << 10]byte

// stream moves one output of the task from its pipe to log files named <prefix>.<n>. The newest index
// grows; a line is cut by the change of files only when it does not fit. The task never waits for a full
// disk: what cannot be written is dropped.
type stream struct {
	pipe   int // -1 when nobody writes any more
	prefix string
	index  int64
	file   int // -1 when it could not be opened
	size   int64
	max    int64
	keep   int64
}

// newStream goes on in the newest file that an earlier attempt of the task left.
func newStream(pipe int, prefix string, spec *frame.Spec) *stream {
	l := &stream{pipe: pipe, prefix: prefix, file: -1, max: max(spec.MaxFileBytes, 1), keep: max(spec.MaxFiles, 1)}
	cut := len(prefix) - 1
	for cut > 0 && prefix[cut] != '/' {
		cut--
	}
	base := prefix[cut+1:] + "."
	var found []int64
	for _, name := range listDir(prefix[:cut]) {
		if len(name) > len(base) && name[:len(base)] == base {
			if n := atoi(name[len(base):]); n >= 0 {
				found = append(found, int64(n))
				l.index = max(l.index, int64(n))
			}
		}
	}
	for _, n := range found {
		if n <= l.index-l.keep {
			_ = syscall.Unlink(prefix + "." + itoa(n))
		}
	}
	l.open()
	return l
}

func (l *stream) open() {
	path := l.prefix + "." + itoa(l.index)
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_APPEND|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return
	}
	var st syscall.Stat_t
	_ = syscall.Fstat(fd, &st)
	l.file, l.size = fd, st.Size
}

func (l *stream) fd() int32 {
	if l == nil {
		return -1
	}
	return int32(l.pipe)
}

// pump moves what is there, at most a few buffers so that the other descriptors get their turn.
func (l *stream) pump() {
	for range 8 {
		if l == nil || !l.move() {
			return
		}
	}
}

// drain moves all that is there.
func (l *stream) drain() {
	for l != nil && l.move() {
	}
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
		_ = syscall.Unlink(l.prefix + "." + itoa(gone))
	}
}
