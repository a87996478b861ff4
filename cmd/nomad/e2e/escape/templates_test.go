package escape

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// templates are things where the agent writes files for a task. A file that cannot be written ends the allocation, so
// that these live shortly and come again.
var templates = []attack{
	{"a link in the place of the file", func(g ground) {
		again(func() {
			_ = os.Remove(filepath.Join(g.web, "local", "f"))
			_ = os.Symlink(g.victim+"/secret", filepath.Join(g.web, "local", "f"))
		})
	}},
	{"a link to what is not there", func(g ground) {
		again(func() {
			_ = os.Remove(filepath.Join(g.web, "tmp", "s"))
			_ = os.Symlink(g.victim+"/made", filepath.Join(g.web, "tmp", "s"))
		})
	}},
	{"a pipe in the place of the file", func(g ground) {
		at := filepath.Join(g.web, "local", "p")
		again(func() {
			_ = os.Remove(at)
			_ = unix.Mkfifo(at, 0o666)
		})
	}},
	{"a directory in the place of the file", func(g ground) {
		again(func() { _ = os.MkdirAll(filepath.Join(g.web, "local", "d", "x"), 0o777) })
	}},
	{"a link in the place of its directory", func(g ground) {
		_ = os.MkdirAll(filepath.Join(g.web, "local", "g"), 0o777)
		swap(filepath.Join(g.web, "local", "g"), linkTo(g.victim+"/dir"))
	}},
	{"a link in the place of the local directory", func(g ground) { swap(filepath.Join(g.web, "local"), linkTo(g.victim+"/dir")) }},
	{"a link in the place of the secrets", func(g ground) { swap(filepath.Join(g.web, "secrets"), linkTo(g.victim+"/dir")) }},
	{"a link in the place of what has no name yet", func(g ground) {
		dir := filepath.Join(g.web, "local")
		again(func() {
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				if strings.HasPrefix(e.Name(), ".made-") {
					_ = os.Remove(filepath.Join(dir, e.Name()))
					_ = os.Symlink(g.victim+"/secret", filepath.Join(dir, e.Name()))
				}
			}
		})
	}},
}
