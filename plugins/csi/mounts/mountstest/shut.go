package mountstest

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// Hold lets another process keep files of the file system of a device open, until letGo is called: what mounts it again once it was
// shut down gets the same one, and keeps it.
func (h *Host) Hold(dev string) (letGo func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[dev] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.held, dev)
		for _, e := range h.table {
			if e.Dev == dev && slices.Contains(h.shut, dev) {
				h.over[e.ID] = true
			}
		}
	}
}

// Root implements [mounts.Host].
func (h *Host) Root(m *mounts.Entry) error {
	if err := h.Statfs(m.Point); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	e, err := h.topLocked(m)
	if e != nil && (h.over[e.ID] || h.held[e.Dev] && slices.Contains(h.shut, e.Dev)) {
		return unix.EIO
	}
	return err
}
