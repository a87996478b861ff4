package volumes

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// place is a path as the host and as the plugin sees it.
type place struct{ Host, Plugin string }

func (p place) join(elem ...string) place {
	return place{filepath.Join(append([]string{p.Host}, elem...)...), filepath.Join(append([]string{p.Plugin}, elem...)...)}
}

// Directories below a plugin's base: one per staged volume, one per published target.
const (
	stagingDir = "s"
	targetDir  = "t"
)

// short names things in paths: drivers must take only 128 bytes.
func short(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil)[:15]))
}

// stagingAt is the one staging path of a volume on this node. The driver knows volumes by its own ids, so
// two registrations of one volume share it.
func stagingAt(base place, pluginID, externalID string) place {
	return base.join(stagingDir, short(pluginID, externalID))
}

func targetAt(base place, namespace, volumeID, allocID string) place {
	return base.join(targetDir, short(namespace, volumeID, allocID))
}

var pluginIDs = regexp.MustCompile(`^[A-Za-z0-9_.\[\]-]{1,128}$`)

// checkPluginID refuses ids that would lead out of our directory.
func checkPluginID(id string) error {
	if !pluginIDs.MatchString(id) || strings.Contains(id, "..") || id == "." {
		return fault.New(fault.Invalid, "plugin id %q: use letters, digits and - _ . [ ], at most 128", id)
	}
	return nil
}

func (s *Service) baseOf(kind, pluginID string) string {
	return filepath.Join(s.root, kind, pluginID)
}

// makeDirs makes the directories of a plugin's base.
func makeDirs(base string) error {
	for _, dir := range []string{base, filepath.Join(base, stagingDir), filepath.Join(base, targetDir)} {
		if err := makeDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// makeDir makes a directory and its parents unless it is a mount, which must not be touched.
func makeDir(dir string) error {
	if on, err := mounts.IsPoint(dir); err != nil || on {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make directory of plugin: %w", err)
	}
	return nil
}

// prepareRoot makes our directory and lets mounts below it be seen through copies of it.
func (s *Service) prepareRoot() error {
	s.share.Do(func() {
		if s.shareErr = os.MkdirAll(s.root, 0o700); s.shareErr != nil {
			return
		}
		s.shareErr = mounts.Share(s.root)
	})
	return s.shareErr
}

// leaveRoot undoes prepareRoot when nobody needs it: no plugin is left behind that could mount something, and
// nothing is mounted.
func (s *Service) leaveRoot() {
	below, err := mounts.Below(s.root)
	if err != nil || len(below) != 1 || below[0].Point != s.root || s.plugins.alive() || len(s.journal.rows()) > 0 {
		return
	}
	if err := mounts.Unmount(s.root); err != nil {
		s.log.Debug("unmount the root of volumes", "error", err)
	}
}

// removeLeaf removes a path that was mounted on: a file or an empty directory, never what has content.
func removeLeaf(path string) error {
	on, err := mounts.IsPoint(path)
	if err != nil {
		return err
	}
	if on {
		return fault.New(fault.Conflict, "%s is still mounted", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// removeFlat removes a directory with its files. It does not descend, and does nothing when there is a
// mount inside.
func removeFlat(dir string) error {
	inside, err := mounts.Below(dir)
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

func bootID() string {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// orphans lists mounts below plugins' bases that no row of the journal explains.
func (s *Service) orphans() ([]*mounts.Entry, error) {
	below, err := mounts.Below(s.root)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, r := range s.journal.rows() {
		known[r.Target.Host] = true
	}
	for _, st := range s.journal.allStages() {
		known[st.Path.Host] = true
	}
	var out []*mounts.Entry
	for _, e := range below {
		dir := filepath.Base(filepath.Dir(e.Point))
		if (dir == stagingDir || dir == targetDir) && !known[e.Point] {
			out = append(out, e)
		}
	}
	return out, nil
}
