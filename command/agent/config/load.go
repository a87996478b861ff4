package config

import (
	"errors"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
)

// fileMax bounds a configuration file in bytes.
const fileMax = 1 << 20

// Load reads the files and directories in order over c. Directories are read without descending:
// *.hcl and *.json by name, editors' temporary files left out.
func (c *Config) Load(paths ...string) error {
	var errs []error
	for _, path := range paths {
		files, err := filesOf(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, f := range files {
			if err := c.loadFile(f); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

func filesOf(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fault.New(fault.Invalid, "configuration %s: %w", path, errors.Unwrap(err))
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fault.New(fault.Invalid, "configuration directory: %w", err)
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && isConfigName(e.Name()) {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	sort.Strings(files)
	return files, nil
}

func isConfigName(name string) bool {
	temporary := strings.HasSuffix(name, "~") || strings.HasPrefix(name, ".#") ||
		(strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#"))
	return !temporary && (strings.HasSuffix(name, ".hcl") || strings.HasSuffix(name, ".json"))
}

func (c *Config) loadFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fault.New(fault.Invalid, "configuration: %w", err)
	}
	if info.Size() > fileMax {
		return fault.New(fault.TooLarge, "configuration %s: %d bytes exceed the limit of %d", path, info.Size(), fileMax)
	}
	body, err := os.ReadFile(path)
	if err != nil {
		return fault.New(fault.Invalid, "configuration: %w", err)
	}
	if err := c.Decode(path, body); err != nil {
		return err
	}
	c.Files = append(c.Files, path)
	return nil
}
