package supervise

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/durable"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

const (
	programMode = 0o700
	programName = "nomad-supervise"
)

//go:embed bin
var embedded embed.FS

// Install writes the supervising program into dir, unless it is there undamaged, and returns its path. The
// name holds the hash of the content, so that running tasks keep the program they were started with.
func Install(dir string) (string, error) {
	content, err := embedded.ReadFile("bin/nomad-supervise")
	if errors.Is(err, fs.ErrNotExist) {
		return "", fault.New(fault.Unimplemented, "this build carries no supervising program for tasks; build with: make build")
	}
	if err != nil {
		return "", fmt.Errorf("read the supervising program: %w", err)
	}
	path := filepath.Join(dir, fmt.Sprintf("%s-%x", programName, sha256.Sum256(content))[:40])
	if installed(path, content) {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("install the supervising program: %w", err)
	}
	return path, write(path, content)
}

// Try runs an installed program, which ends at once with a code of its own because no agent speaks to it.
func Try(ctx context.Context, path string) error {
	var exit *exec.ExitError
	switch err := exec.CommandContext(ctx, path).Run(); {
	case errors.As(err, &exit) && exit.ExitCode() == frame.ExitUnasked:
		return nil
	case errors.Is(err, fs.ErrPermission):
		return fault.New(fault.Unavailable, "the supervising program cannot be executed: %w (is the file system of %s mounted noexec?)", err, filepath.Dir(path))
	case err == nil:
		return fault.New(fault.Unavailable, "the supervising program %s is another program", path)
	default:
		return fault.New(fault.Unavailable, "the supervising program does not run: %w", err)
	}
}

// installed compares the content: after a power loss a file of the right length may have the wrong content.
func installed(path string, content []byte) bool {
	st, err := os.Lstat(path)
	if err != nil || !st.Mode().IsRegular() || st.Mode().Perm() != programMode || st.Size() != int64(len(content)) {
		return false
	}
	there, err := os.ReadFile(path)
	return err == nil && bytes.Equal(there, content)
}

// write never lets a half-written program be executed, also when other agents install at the same time.
func write(path string, content []byte) error {
	if err := durable.WriteFile(path, content, programMode); err != nil {
		return fmt.Errorf("install the supervising program: %w", err)
	}
	return nil
}
