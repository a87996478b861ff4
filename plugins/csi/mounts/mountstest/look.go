package mountstest

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// SetDevice sets whether path is a block device.
func (h *Host) SetDevice(path string, is bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.devices[path] = is
}

// IsDevice implements [mounts.Host].
func (h *Host) IsDevice(path string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.devices[path]
}

// Devices implements [mounts.Host].
func (h *Host) Devices(root, dir string) (out []string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for path, is := range h.devices {
		if fits, err := filepath.Match(filepath.Join(root, "*", "*", dir, "*"), path); err != nil || fits && is {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out, nil
}

// SetElsewhere sets which process has the files of the mount at path in another mount namespace; 0 is none.
func (h *Host) SetElsewhere(path string, pid int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.elsewhere[path] = pid
}

// Tops implements [mounts.Host].
func (h *Host) Tops(paths []string) (map[string]*mounts.Entry, mounts.List, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	top := map[string]*mounts.Entry{}
	for _, p := range paths {
		if e := h.table.AtExactly(p); e != nil {
			top[p] = e
		}
	}
	return top, slices.Clone(h.table), nil
}

// Elsewhere implements [mounts.Host].
func (h *Host) Elsewhere(m *mounts.Entry) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.elsewhere[m.Point], nil
}

// Watch implements [mounts.Host]: it reports new mounts.
func (h *Host) Watch(ctx context.Context, changed func()) error {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	h.changes[c] = true
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.changes, c)
	}()
	for {
		select {
		case <-c:
			changed()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
