package program

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
)

const (
	// socketDir begins the names of directories of sockets in the state directory, and of links to those elsewhere.
	socketDir = "sockets-"
	// elsewhere begins the names of those in the directory for temporary files.
	elsewhere = "nomad-plugin-" + socketDir
	// statePathMax is the longest path of a state directory that holds sockets: their paths have at most 107 bytes.
	statePathMax = 70
)

// sockets makes a directory for the socket of a process. One that does not lie in the state directory has a link there,
// which is made first: the next agent removes both after a kill.
func (p *Program) sockets() (string, error) {
	if len(p.StateDir) <= statePathMax {
		return os.MkdirTemp(p.StateDir, socketDir)
	}
	name := rand.Text()
	dir := filepath.Join(os.TempDir(), elsewhere+name)
	if err := os.Symlink(dir, filepath.Join(p.StateDir, socketDir+name)); err != nil {
		return "", err
	}
	return dir, os.Mkdir(dir, 0o700)
}

// removeSockets removes the directories of sockets of processes that have ended.
func (p *Program) removeSockets() {
	left, _ := filepath.Glob(filepath.Join(p.StateDir, socketDir+"*"))
	for _, path := range left {
		if dir, err := os.Readlink(path); err == nil && strings.HasPrefix(filepath.Base(dir), elsewhere) {
			_ = os.RemoveAll(dir)
		}
		_ = os.RemoveAll(path)
	}
}
