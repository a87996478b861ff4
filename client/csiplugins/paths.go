package csiplugins

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/lazy"
)

// Place is a path as the host and as the plugin sees it.
type Place struct{ Host, Plugin string }

// Join returns the place below p.
func (p Place) Join(elem ...string) Place {
	return Place{filepath.Join(append([]string{p.Host}, elem...)...), filepath.Join(append([]string{p.Plugin}, elem...)...)}
}

// Directories below a plugin's base: one per staged volume, one per published target.
const (
	StagingDir = "s"
	TargetDir  = "t"
)

// Hash names things in paths and keys: drivers must take only 128 bytes.
func Hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil)[:15]))
}

// VolumeKey identifies a volume as the driver knows it.
func VolumeKey(pluginID, externalID string) string { return Hash(pluginID, externalID) }

var pluginIDs = lazy.Regexp(`^[A-Za-z0-9_.\[\]-]{1,128}$`)

// CheckPluginID refuses ids that would lead out of our directory.
func CheckPluginID(id string) error {
	if !pluginIDs().MatchString(id) || strings.Contains(id, "..") || id == "." {
		return fault.New(fault.Invalid, "plugin id %q: use letters, digits and - _ . [ ], at most 128", id)
	}
	return nil
}

// BaseOf is the directory below which a plugin stages and publishes. Type and id, not the allocation, name it,
// so that a replacement sees the mounts of its predecessor.
func (s *Service) BaseOf(kind, pluginID string) string {
	return filepath.Join(s.conf.Root, kind, pluginID)
}

// MakeDirs makes the directories of a plugin's base.
func (s *Service) MakeDirs(base Place) error {
	for _, dir := range []string{base.Host, filepath.Join(base.Host, StagingDir), filepath.Join(base.Host, TargetDir)} {
		if err := s.conf.Host.MakeDir(dir); err != nil {
			return fmt.Errorf("make directories of plugin: %w", err)
		}
	}
	return nil
}

// PrepareRoot makes our directory and lets mounts below it be seen through copies of it, and unmounts too. A stranger may have
// ended that since the last time.
func (s *Service) PrepareRoot() error {
	s.sharing.Lock()
	defer s.sharing.Unlock()
	if err := s.conf.Host.MakeDir(s.conf.Root); err != nil {
		return err
	}
	return s.conf.Host.Share(s.conf.Root)
}

// LeaveRoot undoes [Service.PrepareRoot] when it is no longer needed: no plugin is left that could mount something,
// and nothing is mounted.
func (s *Service) LeaveRoot() {
	below, err := s.conf.Host.Below(s.conf.Root)
	if err != nil || len(below) != 1 || below[0].Point != s.conf.Root || s.Alive() {
		return
	}
	if err := s.conf.Host.Unmount(s.conf.Root); err != nil {
		s.conf.Log.Debug("unmount the root of volumes", "error", err)
	}
}

// removeFlat removes a directory with its files. It does not descend, and does nothing when there is a
// mount inside.
func (s *Service) removeFlat(dir string) error {
	inside, err := s.conf.Host.Below(dir)
	if err != nil {
		return err
	}
	if len(inside) > 0 {
		return fault.New(fault.Conflict, "%s is not removed: %s is mounted", dir, inside[0].Point)
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read socket directory: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("clean socket directory: %w", err)
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove socket directory: %w", err)
	}
	return nil
}
