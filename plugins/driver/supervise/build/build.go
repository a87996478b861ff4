// Package build makes the supervising program with the Go toolchain, for tests that run without make.
// Nothing but tests imports it.
package build

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Program builds the supervising program into dir and returns its path. The working directory must lie in
// this module, as it does in tests; the toolchain's cache makes all but the first call quick.
func Program(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "nomad-supervise")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path,
		"github.com/open-nomad/open-nomad/plugins/driver/supervise/nomad-supervise")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fault.New(fault.Unavailable, "build the supervising program: %w: %s", err, out)
	}
	return path, nil
}
