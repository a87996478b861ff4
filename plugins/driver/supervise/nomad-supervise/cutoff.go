package main

import (
	"syscall"
	"unsafe"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/bind"
)

const (
	// fsShutdown is FS_IOC_SHUTDOWN of ext4, xfs and f2fs, the same on every architecture we build for;
	// noFlush drops what is in the log and in the page cache.
	fsShutdown = 0x8004587d
	noFlush    = 2

	// statxDev is the offset of the device's number in the result of statx, in two parts.
	statxDev      = 136
	statxDontSync = 0x4000
	statxNoFollow = 0x100
)

// cutMount takes a volume away without writing anything more: the file system is shut down, so that what is in its
// page cache never reaches the storage. Forcing ends the connection of FUSE file systems, and what waits for a
// file server: those that hang cannot be opened, so the shutdown has half of the time that is left. A file system
// that is mounted elsewhere too belongs to others: it is only unmounted here. All of it is done with the mount that is
// found first, which is kept open: another one may be at the path after the wait.
func (l *lease) cutMount(path string) {
	at, flags := path, umountNoFollow
	if fd, err := syscall.Open(path, bind.OPath|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0); err == nil {
		defer syscall.Close(fd)
		if !l.owned(path, numberAt(fd, "", statxMount|statxUnique)) {
			return
		}
		at, flags = "/proc/self/fd/"+itoa(int64(fd)), 0
	}
	if l.owns(path) {
		now := bootTime() - l.from
		l.begin([]string{at}, shutDown).ended(l, now+(l.last()-now)/2)
		_ = syscall.Unmount(at, syscall.MNT_FORCE|flags)
	}
	_ = syscall.Unmount(at, syscall.MNT_DETACH|flags)
}

// owns reports whether the file system at a path is to be shut down. Where the mount table cannot be read for half of the
// time that is left it is, unless that is the file system of the directory above: the host's own.
func (l *lease) owns(path string) bool {
	begun := bootTime() - l.from
	for at := begun + (l.last()-begun)/2; ; {
		if table := mountTable(); table != nil {
			return own(table, path, l.unmount, l.beside)
		}
		left := l.until(at)
		if left <= 0 {
			break
		}
		poll([]pollFD{{-1, 0, 0}}, min(left, againMS))
	}
	here, ok := deviceOf(path)
	above, known := deviceOf(dirOf(path))
	return ok && known && here != above
}

// deviceOf asks for the file system at an absolute path, which is not waited for.
func deviceOf(path string) (dev [8]byte, ok bool) {
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return dev, false
	}
	var x [256]byte
	_, _, e := syscall.Syscall6(sysStatx, 0, uintptr(unsafe.Pointer(name)), statxDontSync|statxNoFollow, 0, uintptr(unsafe.Pointer(&x[0])), 0)
	copy(dev[:], x[statxDev:])
	return dev, e == 0
}

func shutDown(path string) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	how := uint32(noFlush)
	_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), fsShutdown, uintptr(unsafe.Pointer(&how)))
	_ = syscall.Close(fd)
}

// own reports whether all mounts of the file system at the path are in the lists, and one of them shows all of it.
func own(table []byte, path string, unmount, beside []string) bool {
	dev, whole, others := "", false, false
	eachMount(table, func(_, d, _, at string) {
		if at == path {
			dev = d
		}
	})
	eachMount(table, func(_, d, root, at string) {
		if d == dev {
			whole = whole || root == "/"
			others = others || !listed(at, unmount) && !listed(at, beside)
		}
	})
	return dev != "" && whole && !others
}

func listed(path string, list []string) bool {
	for _, p := range list {
		if p == path {
			return true
		}
	}
	return false
}

// mountTable reads the mounts of the thread's namespace.
func mountTable() []byte {
	fd, err := syscall.Open("/proc/thread-self/mountinfo", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(fd)
	b, n := make([]byte, 1<<16), 0
	for {
		if n == len(b) {
			b = append(b, make([]byte, len(b))...)
		}
		got, err := syscall.Read(fd, b[n:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return nil
		}
		if got <= 0 {
			return b[:n]
		}
		n += got
	}
}

// eachMount calls tell with number, device, root and mount point of each line "id parent device root point ...".
func eachMount(table []byte, tell func(id, dev, root, point string)) {
	var fields [5]string
	for start := 0; start < len(table); {
		end := start
		for end < len(table) && table[end] != '\n' {
			end++
		}
		at := start
		for i := range fields {
			next := at
			for next < end && table[next] != ' ' {
				next++
			}
			fields[i] = plain(table[at:next])
			at = min(next+1, end)
		}
		tell(fields[0], fields[2], fields[3], fields[4])
		start = end + 1
	}
}

// plain undoes the octal escapes of blanks.
func plain(b []byte) string {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] == '\\' && i+3 < len(b) {
			out = append(out, (b[i+1]-'0')<<6|(b[i+2]-'0')<<3|(b[i+3]-'0'))
			i += 3
			continue
		}
		out = append(out, b[i])
	}
	return string(out)
}
