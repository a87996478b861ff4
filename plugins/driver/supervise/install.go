package supervise

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/open-nomad/open-nomad/api/fault"
)

//go:embed bin
var embedded embed.FS

// Install writes the supervising program into dir, unless it is there, and returns its path. The name
// holds the hash of the content, so that running tasks keep the program they were started with.
func Install(dir string) (string, error) {
	content, err := embedded.ReadFile("bin/nomad-supervise")
	if errors.Is(err, fs.ErrNotExist) {
		return "", fault.New(fault.Unimplemented, "this build carries no supervising program for tasks; build with: make build")
	}
	if err != nil {
		return "", fmt.Errorf("read the supervising program: %w", err)
	}
	path := filepath.Join(dir, fmt.Sprintf("nomad-supervise-%x", sha256.Sum256(content))[:40])
	if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Size() == int64(len(content)) {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("install the supervising program: %w", err)
	}
	return path, write(path, content)
}

// write never lets a half-written program be executed, whoever else installs at the same time.
func write(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".supervise-*")
	if err != nil {
		return fmt.Errorf("install the supervising program: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(0o700), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("install the supervising program: %w", err)
	}
	return nil
}
