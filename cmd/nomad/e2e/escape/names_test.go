package escape

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// oddNames are names of files that no person would choose.
var oddNames = []string{
	"x\x1b]0;owned\a\x1b[2J", "two\nlines", "back\rover", "\xff\xfe", "...", "..\n", " ", "%2e%2e", "%00", "a\\..\\b", "-rf", "?path=secret", "#", "&",
	"\u202egpj.exe", ".made-x", ".deep-x", strings.Repeat("n", 255), "{{env}}", "$(id)", "*",
}

// names are odd names where agents list and people look.
var names = []attack{
	{"escapes and newlines", func(g ground) {
		for _, name := range oddNames {
			write(g.sharedFile(name), "mine")
			write(filepath.Join(g.web, "local", name), "mine")
			write(filepath.Join(g.logs, name), "mine")
			write(filepath.Join(g.logs, "web.stdout."+name), "mine")
		}
	}},
	{"directories of such names", func(g ground) {
		for _, name := range oddNames {
			_ = os.MkdirAll(filepath.Join(g.shared, "tmp", name, name, "x"), 0o777)
			_ = os.Symlink(g.victim, filepath.Join(g.shared, "tmp", name, "out"))
		}
	}},
	{"names that differ in case and form only", func(g ground) {
		for _, name := range []string{"LOCAL", "Secrets", "é", "é", "secrets ", "secrets."} {
			_ = os.MkdirAll(filepath.Join(g.web, name), 0o777)
			_ = os.Symlink(g.victim+"/secret", filepath.Join(g.web, name, "s"))
		}
	}},
	{"names that the agent uses for a moment", func(g ground) {
		again(func() {
			for _, name := range []string{".probe", ".made-", ".tmp"} {
				g.refused(os.Symlink(g.victim+"/made", filepath.Join(g.alloc, name)), "the directory of the allocation was written to")
				g.refused(os.Symlink(g.victim+"/made", filepath.Join(g.data, "alloc", name)), "the directory of allocations was written to")
			}
		})
	}},
	{"attributes", func(g ground) {
		for _, at := range []string{filepath.Join(g.web, "local"), g.sharedFile(".")} {
			_ = unix.Setxattr(at, "user.big", make([]byte, 3000), 0)
			// A default access list gives nobody all rights to what others make there.
			acl := "\x02\x00\x00\x00\x01\x00\x07\x00\xff\xff\xff\xff\x02\x00\x07\x00\xfe\xff\x00\x00\x04\x00\x07\x00\xff\xff\xff\xff\x10\x00\x07\x00\xff\xff\xff\xff\x20\x00\x07\x00\xff\xff\xff\xff"
			_ = unix.Setxattr(at, "system.posix_acl_default", []byte(acl), 0)
		}
	}},
	{"output that people see", func(ground) {
		text := strings.Repeat("\x1b]0;owned\a\x1b[2J\r\n\xff", 1000)
		again(func() { _, _ = os.Stdout.WriteString(text); _, _ = os.Stderr.WriteString(text) })
	}},
}
