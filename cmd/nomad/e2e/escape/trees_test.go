package escape

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// trees are too deep, too wide, or too large.
var trees = []attack{
	{"a deep tree", func(g ground) { deep(g.sharedFile("deep"), 3000) }},
	{"a tree that grows while it is read", func(g ground) {
		again(func() {
			deep(g.sharedFile("grows"), 30)
			_ = os.RemoveAll(g.sharedFile("grows"))
		})
	}},
	{"many entries", func(g ground) {
		_ = os.Mkdir(g.sharedFile("many"), 0o777)
		for n := range 20_000 {
			write(g.sharedFile(fmt.Sprint("many/", n)), "")
		}
	}},
	{"many log files", func(g ground) {
		for n := range 3000 {
			write(g.log(g.task, "stderr", 1000+n), "x")
			write(g.log("web", "stdout", 1000+n), "")
		}
	}},
	{"log files with the largest numbers", func(g ground) {
		for _, n := range []string{"999999999999999999", "9223372036854775807", "9223372036854775808", "-1", "00", "1e3", "0x1"} {
			write(filepath.Join(g.logs, "web.stderr."+n), "x")
			write(filepath.Join(g.logs, g.task+".stdout."+n), "x")
		}
	}},
	{"huge files", func(g ground) {
		for _, at := range []string{g.sharedFile("huge"), filepath.Join(g.web, "local", "huge"), g.log("web", "stdout", 900), filepath.Join(g.web, "tmp", "s")} {
			write(at, "x")
			_ = os.Truncate(at, 900<<30)
		}
	}},
	{"directories that nobody may enter", func(g ground) {
		for n := range 100 {
			_ = os.MkdirAll(g.sharedFile(fmt.Sprintf("shut/%d/x", n)), 0o777)
			_ = os.Chmod(g.sharedFile(fmt.Sprintf("shut/%d", n)), 0)
		}
		_ = os.Chmod(g.sharedFile("shut"), 0)
		_ = os.Chmod(filepath.Join(g.web, "local"), 0)
		_ = os.Chmod(filepath.Join(g.own, "secrets"), 0)
	}},
	{"programs that change who runs them", func(g ground) {
		if body, err := os.ReadFile("/bin/sh"); err == nil {
			at := filepath.Join(g.own, "local", "sh")
			_ = os.WriteFile(at, body, 0o777)
			_ = unix.Chmod(at, 0o6777)
			_ = unix.Chmod(filepath.Join(g.web, "local"), 0o7777)
		}
	}},
}

// deep makes a tree of so many levels with long names.
func deep(at string, levels int) {
	if os.Mkdir(at, 0o777) != nil {
		return
	}
	fd, err := unix.Open(at, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	name := strings.Repeat("d", 200)
	for range levels {
		if err != nil || unix.Mkdirat(fd, name, 0o777) != nil {
			return
		}
		above := fd
		fd, err = unix.Openat(above, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		_ = unix.Close(above)
	}
	_ = unix.Close(fd)
}
