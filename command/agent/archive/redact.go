package archive

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/open-nomad/open-nomad/nomad/fsm"
)

// Redact takes the secrets of nodes and volumes out of the snapshot in a file. The file changes only when
// all of it was read and its successor is on disk.
func Redact(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("redact snapshot: %w", err)
	}
	defer f.Close()
	next, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".redacted-*")
	if err != nil {
		return fmt.Errorf("redact snapshot: %w", err)
	}
	defer func() {
		_ = next.Close()
		_ = os.Remove(next.Name())
	}()
	if err := fsm.RedactArchive(ctx, f, next); err != nil {
		return fmt.Errorf("redact snapshot %s: %w", path, err)
	}
	if err := next.Sync(); err != nil {
		return fmt.Errorf("redact snapshot: %w", err)
	}
	if err := os.Rename(next.Name(), path); err != nil {
		return fmt.Errorf("redact snapshot: %w", err)
	}
	return nil
}
