package kit

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// ofLab finds the process id in the names of a lab's things: namespaces, links and directories.
var ofLab = regexp.MustCompile(`^k([0-9a-f]+)x[0-9a-f]+`)

// Sweep removes what labs left whose test process was killed before it could clean up.
func Sweep(tb testing.TB) {
	for _, name := range labNames() {
		pid, err := strconv.ParseInt(ofLab.FindStringSubmatch(name)[1], 16, 32)
		if err != nil || Lives(int(pid)) {
			continue
		}
		path := filepath.Join(os.TempDir(), name)
		if _, err := os.Stat(path); err == nil {
			(&Agent{Dir: path, tb: tb}).clean()
			continue
		}
		_, _ = ip("link", "del", name)
		_, _ = ip("netns", "del", name)
	}
}

// labNames lists the directories, links and namespaces of labs; directories come first.
func labNames() []string {
	var names []string
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), "k*x*"))
	for _, dir := range dirs {
		names = append(names, filepath.Base(dir))
	}
	links, _ := ip("-o", "link", "show")
	for _, line := range strings.Split(links, "\n") {
		if fields := strings.Fields(line); len(fields) > 1 {
			name, _, _ := strings.Cut(strings.TrimSuffix(fields[1], ":"), "@")
			names = append(names, name)
		}
	}
	spaces, _ := ip("netns", "list")
	for _, line := range strings.Split(spaces, "\n") {
		if fields := strings.Fields(line); len(fields) > 0 {
			names = append(names, fields[0])
		}
	}
	var found []string
	for _, name := range names {
		if ofLab.MatchString(name) {
			found = append(found, name)
		}
	}
	return found
}
