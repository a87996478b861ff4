// Package durable replaces small files so that a reader, and a machine that lost its power, finds the old content or the
// new one and nothing between.
package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// WriteFile puts content in the place of whatever file has the path. When it returns nil the content outlives a loss of
// power; when it returns an error the file is as before, unless only the last step failed, the sync of the directory.
func WriteFile(path string, content []byte, mode fs.FileMode) error {
	return Write(path, mode, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// Write is WriteFile for a content that comes in pieces. An error of fill is returned as it is.
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
