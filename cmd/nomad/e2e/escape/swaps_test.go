package escape

import (
	"os"
	"path/filepath"
)

// swaps put something else in the place of what the agent has just made or looked at.
var swaps = []attack{
	{"the local directory of a task", func(g ground) { swap(filepath.Join(g.web, "local"), linkTo(g.victim+"/dir")) }},
	{"the secrets of a task", func(g ground) { swap(filepath.Join(g.web, "secrets"), linkTo(g.victim)) }},
	{"the directory for temporary files", func(g ground) { swap(filepath.Join(g.web, "tmp"), linkTo(g.victim+"/open")) }},
	{"a directory that is read", func(g ground) {
		at := g.sharedFile("n")
		_ = os.MkdirAll(at+"/etc", 0o777)
		write(at+"/etc/shadow", "mine")
		write(at+"/secret", "mine")
		go swap(at, linkTo("/"))
		_ = os.MkdirAll(g.sharedFile("m")+"/dir", 0o777)
		write(g.sharedFile("m")+"/secret", "mine")
		write(g.sharedFile("m")+"/dir/file", "mine")
		swap(g.sharedFile("m"), linkTo(g.victim))
	}},
	{"a file that is read", func(g ground) {
		write(g.sharedFile("swap"), "mine")
		swap(g.sharedFile("swap"), linkTo(g.victim+"/secret"))
	}},
	{"a directory moves up while something in it is read", func(g ground) {
		_ = os.MkdirAll(g.sharedFile("a/b/c/d"), 0o777)
		write(g.sharedFile("a/b/c/d/f"), "mine")
		again(func() {
			_ = os.Rename(g.sharedFile("a/b/c"), g.sharedFile("c"))
			_ = os.Rename(g.sharedFile("c"), g.sharedFile("a/b/c"))
		})
	}},
	{"a log file", func(g ground) {
		write(g.log("web", "stdout", 2), "mine")
		go swap(g.log("web", "stdout", 2), linkTo(g.victim+"/secret"))
		swap(g.log(g.task, "stderr", 1), linkTo(g.victim+"/secret"))
	}},
	{"a file grows and shrinks while it is read", func(g ground) {
		again(func() {
			_ = os.Truncate(g.sharedFile("swap"), 1<<40)
			_ = os.Truncate(g.sharedFile("swap"), 0)
		})
	}},
}
