package external

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver/external/protocol"
)

// Executable is a driver in a plugin directory.
type Executable struct {
	// Driver is the name of the driver.
	Driver string
	// Path is that of the file, whose name the plugin block of the agent has.
	Path string
}

// Find lists the executables in a plugin directory, by the names of files. A directory that does not exist has none.
func Find(dir string) ([]Executable, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Executable
	seen := map[string]string{}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			continue
		}
		if info.Mode()&0o002 != 0 {
			return nil, fault.New(fault.Denied, "%s: every user may write it, and the agent would execute it: chmod o-w", path)
		}
		name := strings.TrimPrefix(e.Name(), protocol.Prefix)
		if other := seen[name]; other != "" {
			return nil, fault.New(fault.Conflict, "%s: %s is the same driver %q", path, other, name)
		}
		seen[name] = e.Name()
		out = append(out, Executable{Driver: name, Path: path})
	}
	return out, nil
}
