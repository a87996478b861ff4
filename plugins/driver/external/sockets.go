package external

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
	elsewhere = "nomad-driver-" + socketDir
	// statePathMax is the longest path of a state directory that holds sockets: their paths have at most 107 bytes.
	statePathMax = 70
)

// sockets makes a directory for the socket of a process. One that does not lie in the state directory has a link there,
// which is made first: the next agent removes both after a kill.
func (d *Driver) sockets() (string, error) {
	if len(d.conf.StateDir) <= statePathMax {
		return os.MkdirTemp(d.conf.StateDir, socketDir)
	}
	name := rand.Text()
	dir := filepath.Join(os.TempDir(), elsewhere+name)
	if err := os.Symlink(dir, filepath.Join(d.conf.StateDir, socketDir+name)); err != nil {
		return "", err
	}
	return dir, os.Mkdir(dir, 0o700)
}

// removeSockets removes the directories of sockets of processes that have ended.
func (d *Driver) removeSockets() {
	left, _ := filepath.Glob(filepath.Join(d.conf.StateDir, socketDir+"*"))
	for _, path := range left {
		if dir, err := os.Readlink(path); err == nil && strings.HasPrefix(filepath.Base(dir), elsewhere) {
			_ = os.RemoveAll(dir)
		}
		_ = os.RemoveAll(path)
	}
}
