package escape

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// pipes are things that are no files: opening or reading them waits, or never ends.
var pipes = []attack{
	{"log files to come are pipes", func(g ground) {
		for n := 1; n < 5; n++ {
			_ = unix.Mkfifo(g.log("web", "stdout", n), 0o666)
			_ = unix.Mkfifo(g.log(g.task, "stdout", n), 0o666)
		}
	}},
	{"log files to come are pipes with a reader", func(g ground) {
		at := g.log("web", "stderr", 1)
		_ = unix.Mkfifo(at, 0o666)
		fd, err := unix.Open(at, unix.O_RDWR, 0)
		for err == nil {
			var b [4096]byte
			_, err = unix.Read(fd, b[:])
		}
	}},
	{"log files to come are directories", func(g ground) {
		for n := 5; n < 8; n++ {
			_ = os.MkdirAll(g.log("web", "stdout", n)+"/x", 0o777)
			_ = os.MkdirAll(g.log(g.task, "stdout", n)+"/x", 0o777)
		}
	}},
	{"a file is a pipe by turns", func(g ground) {
		at := g.sharedFile("turns")
		write(at, "a file")
		swap(at, func(path string) { _ = unix.Mkfifo(path, 0o666) })
	}},
	{"a pipe that is never fed", func(g ground) {
		_ = unix.Mkfifo(g.sharedFile("pipe"), 0o666)
		_ = os.Symlink("pipe", g.sharedFile("to-pipe"))
		_, _ = unix.Open(g.sharedFile("pipe"), unix.O_RDWR, 0)
	}},
	{"devices", func(g ground) {
		for n, at := range []string{g.sharedFile("device"), g.log("web", "stdout", 8), filepath.Join(g.web, "local", "device")} {
			g.refused(unix.Mknod(at, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))), "a device was made")
			g.refused(unix.Mknod(at, unix.S_IFBLK|0o666, int(unix.Mkdev(254, uint32(n)))), "a block device was made")
		}
	}},
	{"links to devices", func(g ground) {
		for _, name := range []string{"zero", "full", "tty", "ptmx", "stdin", "random", "kmsg", "mem", "vda"} {
			_ = os.Symlink("/dev/"+name, g.sharedFile("dev-"+name))
			_ = os.Symlink("/dev/"+name, g.log("web", "stdout", 20+len(name)))
		}
	}},
	{"sockets", func(g ground) {
		for _, at := range []string{g.sharedFile("socket"), g.log("web", "stdout", 9), filepath.Join(g.web, "tmp", "socket"), filepath.Join(g.web, "local", "f")} {
			listen(at)
		}
		again(func() {
			_ = os.Remove(g.sharedFile("born"))
			listen(g.sharedFile("born"))
		})
	}},
	{"a file whose lease makes others wait", func(g ground) {
		for _, at := range []string{g.sharedFile("leased"), g.log("web", "stdout", 11), filepath.Join(g.web, "local", "leased")} {
			write(at, "leased")
			if fd, err := unix.Open(at, unix.O_RDWR, 0); err == nil {
				go again(func() { _, _ = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK) })
			}
		}
	}},
	{"locks on files of the agent", func(g ground) {
		for _, at := range []string{g.log("web", "stdout", 0), g.logs, g.web, g.alloc, filepath.Join(g.data, "client", "state.db")} {
			if fd, err := unix.Open(at, unix.O_RDONLY, 0); err == nil {
				_ = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
			}
		}
	}},
}

// listen makes a socket at a path, whose length does not matter. It is left to itself: nobody accepts.
func listen(path string) {
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(dir)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	if unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(path))}) != nil || filepath.Base(path) == "born" {
		_ = unix.Close(fd)
		return
	}
	_ = unix.Listen(fd, 1)
}
