// Package program installs the programs that nomad carries inside itself: nomad-supervise and the other child programs.
package program

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/durable"
)

const mode = 0o700

// Install writes the program bin/name of carried (or bin/name.gz, compressed) into dir, unless it is there undamaged, and
// returns its path. The file's name has the hash of the content, so that running programs keep the version that they were
// started with. A build without the program is an error of class Unimplemented.
func Install(carried fs.FS, name, dir string) (string, error) {
	content, err := read(carried, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fault.New(fault.Unimplemented, "this build carries no program %s; build with: make build", name)
	}
	if err != nil {
		return "", fmt.Errorf("read the program %s: %w", name, err)
	}
	path := filepath.Join(dir, fmt.Sprintf("%s-%x", name, sha256.Sum256(content))[:len(name)+1+24])
	if installed(path, content) {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("install the program %s: %w", name, err)
	}
	// A half-written program is never executed, also when several agents install at the same time. And no child is forked while
	// the file is open for writing: until the child executes its own program, nothing can execute this one (ETXTBSY).
	syscall.ForkLock.RLock()
	err = durable.WriteFile(path, content, mode)
	syscall.ForkLock.RUnlock()
	if err != nil {
		return "", fmt.Errorf("install the program %s: %w", name, err)
	}
	return path, nil
}

func read(carried fs.FS, name string) ([]byte, error) {
	content, err := fs.ReadFile(carried, "bin/"+name)
	if !errors.Is(err, fs.ErrNotExist) {
		return content, err
	}
	packed, err := fs.ReadFile(carried, "bin/"+name+".gz")
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// installed compares the content: after a power loss a file of the right length may have the wrong content.
func installed(path string, content []byte) bool {
	st, err := os.Lstat(path)
	if err != nil || !st.Mode().IsRegular() || st.Mode().Perm() != mode || st.Size() != int64(len(content)) {
		return false
	}
	there, err := os.ReadFile(path)
	return err == nil && bytes.Equal(there, content)
}
