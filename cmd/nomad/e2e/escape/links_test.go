package escape

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// links are symbolic and hard links where the agent reads, writes and makes things.
var links = []attack{
	{"the directory of the logs is a link", func(g ground) {
		g.refused(os.Rename(g.logs, g.logs+".x"), "the directory of the logs was moved")
		g.refused(os.Symlink(g.victim, filepath.Join(g.alloc, "x")), "the directory of the allocation was written to")
	}},
	{"the directory of a task is a link", func(g ground) {
		g.refused(os.Rename(g.web, g.web+".x"), "the directory of a task was moved")
		g.refused(os.Rename(g.shared, g.shared+".x"), "the shared directory was moved")
	}},
	{"log files to come are links", func(g ground) {
		for n := 1; n < 8; n++ {
			_ = os.Symlink(g.victim+"/secret", g.log("web", "stdout", n))
			_ = os.Symlink(g.victim+"/dir/file", g.log(g.task, "stdout", n))
		}
		again(func() { _ = os.Symlink(g.victim+"/made", g.log("web", "stderr", 1)) })
	}},
	{"log files are links through a directory", func(g ground) {
		_ = os.Symlink(g.victim, filepath.Join(g.logs, "web.stdout.8"))
		_ = os.Symlink("web.stdout.8/secret", filepath.Join(g.logs, "web.stdout.9"))
	}},
	{"hard links of what only root writes", func(g ground) {
		for _, at := range []string{g.log("web", "stdout", 10), filepath.Join(g.web, "local", "hard"), g.sharedFile("hard")} {
			g.refused(os.Link(g.victim+"/secret", at), "a hard link of a file of root")
			_ = os.Link(g.victim+"/open", at)
			_ = os.Link("/proc/self/root"+g.victim+"/open", at)
		}
	}},
	{"hard links of logs of others", func(g ground) {
		again(func() {
			if os.Link(g.log("web", "stdout", 0), g.sharedFile("log")) == nil {
				_ = os.Remove(g.sharedFile("log"))
			}
		})
	}},
	{"links out of the allocation", func(g ground) {
		for name, target := range map[string]string{
			"root": "/", "up": strings.Repeat("../", 20), "victim": g.victim, "secret": g.victim + "/secret", "shadow": "/etc/shadow",
			"relative": "../../../../../../" + g.victim + "/secret", "data-dir": "../../../../client", "out": "../../..",
		} {
			_ = os.Symlink(target, g.sharedFile(name))
		}
	}},
	{"links in circles and chains", func(g ground) {
		_ = os.Symlink("loop", g.sharedFile("loop"))
		_ = os.Symlink("ring-b", g.sharedFile("ring-a"))
		_ = os.Symlink("ring-a", g.sharedFile("ring-b"))
		for n := range 60 {
			_ = os.Symlink(fmt.Sprint("chain-", n+1), g.sharedFile(fmt.Sprint("chain-", n)))
		}
		_ = os.Symlink(g.victim+"/secret", g.sharedFile("chain-60"))
		_ = os.Symlink(strings.Repeat("x/../", 800)+"secret", g.sharedFile("long"))
	}},
	{"links to the secrets of another task", func(g ground) {
		_ = os.Symlink("../../web/secrets", g.sharedFile("hidden"))
		_ = os.Symlink("../../web/secrets/s", g.sharedFile("hidden-file"))
		_ = os.Symlink("../web/secrets", filepath.Join(g.own, "hidden"))
	}},
}
