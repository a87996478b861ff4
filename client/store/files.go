package store

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Files is a set of values with a file for each. They outlive the process and the loss of the database, and not always a
// loss of power: it is for copies of what ends with the boot.
type Files struct{ dir string }

// InFiles is the set of the files in a directory, which comes into being with the first value.
func InFiles(dir string) Files { return Files{dir} }

// whole ends the names of files that are whole.
const whole = ".json"

func (f Files) path(key string) string { return filepath.Join(f.dir, url.PathEscape(key)+whole) }

// Get returns the value of key, nil when there is none.
func (f Files) Get(key string) ([]byte, error) {
	raw, err := os.ReadFile(f.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return raw, err
}

// Put stores the value: who reads finds the old one or the new one.
func (f Files) Put(key string, value []byte) error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return fmt.Errorf("make directory of client state: %w", err)
	}
	w, err := os.CreateTemp(f.dir, "new-")
	if err != nil {
		return err
	}
	_, err = w.Write(value)
	if err = errors.Join(err, w.Close()); err == nil {
		err = os.Rename(w.Name(), f.path(key))
	}
	if err != nil {
		return errors.Join(err, os.Remove(w.Name()))
	}
	return nil
}

// Delete removes key; a missing key is no error.
func (f Files) Delete(key string) error {
	if err := os.Remove(f.path(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// All returns the whole set, and removes what a process left that ended while it wrote. Nobody may write meanwhile.
func (f Files) All() (map[string][]byte, error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	all := map[string][]byte{}
	var errs []error
	for _, e := range entries {
		name, is := strings.CutSuffix(e.Name(), whole)
		key, err := url.PathUnescape(name)
		switch {
		case !is:
			err = os.Remove(filepath.Join(f.dir, e.Name()))
		case err == nil:
			all[key], err = os.ReadFile(filepath.Join(f.dir, e.Name()))
		}
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}
