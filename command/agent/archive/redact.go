package archive

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/open-nomad/open-nomad/internal/durable"
	"github.com/open-nomad/open-nomad/nomad/fsm/archive"
)

// Redact takes the secrets of nodes and volumes out of the snapshot in a file. The file changes only when
// all of it was read and its successor is on disk.
func Redact(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("redact snapshot: %w", err)
	}
	defer f.Close()
	err = durable.Write(path, 0o600, func(next io.Writer) error { return archive.Redact(ctx, f, next) })
	if err != nil {
		return fmt.Errorf("redact snapshot %s: %w", path, err)
	}
	return nil
}
