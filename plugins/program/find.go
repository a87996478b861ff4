package program

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Executable is a plugin in a plugin directory.
type Executable struct {
	Kind Kind
	// Name is the name of the plugin.
	Name string
	// Path is that of the file, whose name the plugin block of the agent has.
	Path string
}

// Find lists the executables in a plugin directory, by the names of files. The prefix of a name decides the kind; a name without
// one is of the kind whose prefix is optional. A directory that does not exist has none.
func Find(dir string, kinds ...Kind) ([]Executable, error) {
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
		found, ok := classify(e.Name(), kinds)
		if !ok {
			continue
		}
		found.Path = path
		if other := seen[found.Kind.Noun+" "+found.Name]; other != "" {
			return nil, fault.New(fault.Conflict, "%s: %s is the same %s %q", path, other, found.Kind.Noun, found.Name)
		}
		seen[found.Kind.Noun+" "+found.Name] = e.Name()
		out = append(out, found)
	}
	return out, nil
}

func classify(file string, kinds []Kind) (Executable, bool) {
	for _, k := range kinds {
		if name, ok := strings.CutPrefix(file, k.Prefix); ok && name != "" {
			return Executable{Kind: k, Name: name}, true
		}
	}
	for _, k := range kinds {
		if k.Optional {
			return Executable{Kind: k, Name: file}, true
		}
	}
	return Executable{}, false
}
