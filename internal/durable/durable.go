// Package durable replaces small files atomically: concurrent readers, and readers after a power loss, get the old or
// the new content and never a mixture.
package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// WriteFile replaces the file at path. If it returns nil the content survives a power loss. If it returns an error the
// file is unchanged, unless only the last step failed, the sync of the directory.
func WriteFile(path string, content []byte, mode fs.FileMode) error {
	return Write(path, mode, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// Write is [WriteFile] for content that fill writes in pieces. It returns errors of fill unchanged.
func Write(path string, mode fs.FileMode, fill func(io.Writer) error) error {
	dir := filepath.Dir(path)
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(dir), renameio.WithStaticPermissions(mode))
	if err != nil {
		return err
	}
	if err := fill(f); err != nil {
		return errors.Join(err, f.Cleanup())
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return errors.Join(err, f.Cleanup())
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
