// Package mountstest keeps the mounts of a host in memory, for tests that play many hosts in virtual time.
//
// A [Host] does what [mounts.System] does, as far as package volumes can observe: binds, stacked mounts, unmounts that
// find a mount busy, directories, boots. [Host.Kill], [Host.Hang] and [Host.Reboot] play what goes wrong. A hung
// Statfs waits on a channel, so that it is no obstacle to virtual time.
package mountstest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// Host is one host in memory. The zero value is not usable; see [New].
type Host struct {
	name string

	mu      sync.Mutex
	boot    int
	lastID  int
	table   mounts.List
	dirs    map[string]bool
	busy    map[string]bool
	broken  map[int]error
	hung    map[int]chan struct{}
	devices map[string]bool
	// elsewhere are the processes that have files of the mounts at paths in other mount namespaces.
	elsewhere map[string]int
	// changes are notified when the table changes.
	changes map[chan struct{}]bool
	// slow are the paths whose unmount ends when the channel is closed, after the table has shown it.
	slow map[string]chan struct{}
	// unwritten are the paths that are written back when the channel is closed.
	unwritten map[string]chan struct{}
	// shut are the devices of file systems that were shut down, synced those that were written back.
	shut, synced []string
	// held are the devices of which other processes have files open, over the mounts of what was shut down.
	held map[string]bool
	over map[int]bool
	// aborted are the devices of file systems whose waiters were made to fail; aborting is called after each abort.
	aborted  []string
	aborting func(*mounts.Entry)
	born     time.Time
}

var _ mounts.Host = (*Host)(nil)

// New returns a host without mounts.
func New(name string) *Host {
	return &Host{
		name: name, boot: 1, dirs: map[string]bool{}, busy: map[string]bool{}, broken: map[int]error{}, hung: map[int]chan struct{}{},
		devices: map[string]bool{}, held: map[string]bool{}, over: map[int]bool{}, elsewhere: map[string]int{}, changes: map[chan struct{}]bool{}, slow: map[string]chan struct{}{}, unwritten: map[string]chan struct{}{},
		born: time.Now(),
	}
}

// Reboot ends all mounts and begins another boot; directories stay.
func (h *Host) Reboot() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.boot++
	h.table = nil
	clear(h.busy)
	clear(h.broken)
	h.releaseLocked()
}

// Kill makes the mount at path fail like a file system whose server no longer exists.
func (h *Host) Kill(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.table.AtExactly(path); e != nil {
		h.broken[e.ID] = unix.ENOTCONN
	}
}

// Hang makes the mount at path silent until [Host.Wake], an abort or a reboot.
func (h *Host) Hang(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.table.AtExactly(path); e != nil && h.hung[e.ID] == nil {
		h.hung[e.ID] = make(chan struct{})
	}
}

// Wake ends all silence.
func (h *Host) Wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.releaseLocked()
}

func (h *Host) releaseLocked() {
	for id, c := range h.hung {
		close(c)
		delete(h.hung, id)
	}
}

// HangUnmount lets unmounts of path write back until goOn is called: the table does not show the mount meanwhile.
func (h *Host) HangUnmount(path string) (goOn func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := make(chan struct{})
	h.slow[path] = c
	return func() { close(c) }
}

// HangSync lets the file system at path be written back until goOn is called, or it is shut down.
func (h *Host) HangSync(path string) (goOn func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := make(chan struct{})
	h.unwritten[path] = c
	return func() { h.written(path) }
}

func (h *Host) written(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.unwritten[path]; c != nil {
		close(c)
		delete(h.unwritten, path)
	}
}

// SetBusy sets whether the mounts at path are in use, so that they cannot be unmounted.
func (h *Host) SetBusy(path string, busy bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy[path] = busy
}

// Mount puts a file system at path, as a driver that mounts a device does; dev identifies the device.
func (h *Host) Mount(dev, fstype, path string, f mounts.Flags) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.dirs[path] {
		return fmt.Errorf("mount %s: %w", path, unix.ENOENT)
	}
	h.addLocked(&mounts.Entry{Dev: dev, Root: "/", Point: path, FSType: fstype}, f)
	return nil
}

func (h *Host) addLocked(e *mounts.Entry, f mounts.Flags) {
	h.lastID++
	e.ID, e.Unique = h.lastID, uint64(h.lastID)
	e.ReadOnly, e.Flags = f.ReadOnly, f
	h.table = append(slices.Clone(h.table), e)
	for c := range h.changes {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Bind implements [mounts.Host]. What is below a mount is of its device, everything else of the host's own.
func (h *Host) Bind(source, target string, f mounts.Flags) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.dirs[target] {
		return fmt.Errorf("bind %s to %s: %w", source, target, unix.ENOENT)
	}
	e := &mounts.Entry{Dev: "0:1", Root: source, Point: target, FSType: "memory"}
	best := 0
	for _, m := range h.table {
		if rel, inside := strings.CutPrefix(source+"/", m.Point+"/"); inside && len(m.Point) >= best {
			best = len(m.Point)
			e.Dev, e.FSType, e.Root = m.Dev, m.FSType, filepath.Join(m.Root, rel)
		}
	}
	h.addLocked(e, f)
	return nil
}

// Unmount implements [mounts.Host].
func (h *Host) Unmount(path string) error {
	slow, err := h.unmount(path)
	if slow == nil {
		return err
	}
	<-slow
	if on, _ := h.IsPoint(path); on {
		return fmt.Errorf("unmount %s: something was mounted there meanwhile", path)
	}
	return nil
}

func (h *Host) unmount(path string) (slow chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.table.AtExactly(path) == nil {
		return nil, nil
	}
	if h.busy[path] {
		return nil, fmt.Errorf("unmount %s: %w", path, unix.EBUSY)
	}
	h.table = slices.DeleteFunc(slices.Clone(h.table), func(e *mounts.Entry) bool { return e.Point == path })
	return h.slow[path], nil
}

// Restrict implements [mounts.Host].
func (h *Host) Restrict(path string, f mounts.Flags) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.table = slices.Clone(h.table)
	for i, e := range slices.Backward(h.table) {
		if e.Point == path {
			next := *e
			next.Flags = next.Flags.With(f)
			next.ReadOnly = next.Flags.ReadOnly
			h.table[i] = &next
			return nil
		}
	}
	return fmt.Errorf("restrict %s: %w", path, unix.EINVAL)
}

// Remove implements [mounts.Host].
func (h *Host) Remove(m *mounts.Entry) error {
	slow, err := h.take(m, false)
	if slow != nil {
		<-slow
	}
	return err
}

// Detach implements [mounts.Host].
func (h *Host) Detach(m *mounts.Entry) error {
	_, err := h.take(m, true)
	return err
}

func (h *Host) take(m *mounts.Entry, lazily bool) (slow chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, err := h.topLocked(m)
	if err != nil || e == nil {
		return nil, err
	}
	if h.busy[m.Point] && !lazily {
		return nil, fmt.Errorf("unmount %s: %w", m.Point, unix.EBUSY)
	}
	h.table = slices.DeleteFunc(slices.Clone(h.table), func(o *mounts.Entry) bool { return o == e })
	if lazily {
		return nil, nil
	}
	return h.slow[m.Point], nil
}

// topLocked finds a mount that was seen; nil when it no longer exists. Another one that covers it is an error.
func (h *Host) topLocked(m *mounts.Entry) (*mounts.Entry, error) {
	e := h.table.AtExactly(m.Point)
	switch {
	case e == nil || e.ID < m.ID:
		return nil, nil
	case e.ID > m.ID:
		return nil, fmt.Errorf("%s: something was mounted there meanwhile", m.Point)
	}
	return e, nil
}

// Sync implements [mounts.Host].
func (h *Host) Sync(m *mounts.Entry) error {
	h.mu.Lock()
	c := h.unwritten[m.Point]
	h.mu.Unlock()
	if c != nil {
		<-c
	}
	return h.noteDevice(m, &h.synced)
}

// ShutDown implements [mounts.Host].
func (h *Host) ShutDown(m *mounts.Entry) error {
	err := h.noteDevice(m, &h.shut)
	if err == nil {
		h.written(m.Point)
	}
	return err
}

// noteDevice needs the directory opened that a mount shows, which waits for a hung file system.
func (h *Host) noteDevice(m *mounts.Entry, on *[]string) error {
	if err := h.Statfs(m.Point); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	e, err := h.topLocked(m)
	if e != nil {
		*on = append(*on, e.Dev)
	}
	return err
}

// Ended lists the devices whose file systems were written back, and those that were shut down.
func (h *Host) Ended() (synced, shut []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.synced), slices.Clone(h.shut)
}

// Aborted lists the devices of file systems that were aborted.
func (h *Host) Aborted() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.aborted)
}

// Aborting has do called after each abort, before its caller continues.
func (h *Host) Aborting(do func(*mounts.Entry)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.aborting = do
}

// Abort implements [mounts.Host].
func (h *Host) Abort(m *mounts.Entry) error {
	err := h.abort(m)
	h.mu.Lock()
	do := h.aborting
	h.mu.Unlock()
	if do != nil {
		do(m)
	}
	return err
}

func (h *Host) abort(m *mounts.Entry) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, err := h.topLocked(m)
	if e != nil {
		h.aborted = append(h.aborted, e.Dev)
	}
	if e != nil && h.hung[e.ID] != nil {
		close(h.hung[e.ID])
		delete(h.hung, e.ID)
		h.broken[e.ID] = unix.EIO
	}
	return err
}

// Statfs implements [mounts.Host].
func (h *Host) Statfs(path string) error {
	h.mu.Lock()
	e := h.table.AtExactly(path)
	if e == nil {
		h.mu.Unlock()
		return nil
	}
	wait, id := h.hung[e.ID], e.ID
	h.mu.Unlock()
	if wait != nil {
		<-wait
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.broken[id]
}

// Table implements [mounts.Host].
func (h *Host) Table() (mounts.List, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.table), nil
}

// Below implements [mounts.Host].
func (h *Host) Below(dir string) (mounts.List, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out mounts.List
	for _, e := range h.table {
		if e.Point == dir || strings.HasPrefix(e.Point, dir+"/") {
			out = append(out, e)
		}
	}
	return out, nil
}

// At implements [mounts.Host].
func (h *Host) At(path string) (*mounts.Entry, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.table.AtExactly(path), nil
}

// IsPoint implements [mounts.Host].
func (h *Host) IsPoint(path string) (bool, error) {
	e, err := h.At(path)
	return e != nil, err
}

// Share implements [mounts.Host].
func (h *Host) Share(string) error { return nil }

// MakeDir implements [mounts.Host].
func (h *Host) MakeDir(path string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for d := path; d != "/" && d != "."; d = filepath.Dir(d) {
		h.dirs[d] = true
	}
	return nil
}

// RemoveLeaf implements [mounts.Host].
func (h *Host) RemoveLeaf(path string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.table.AtExactly(path) != nil {
		return fmt.Errorf("remove %s: %w", path, mounts.ErrMounted)
	}
	for d := range h.dirs {
		if strings.HasPrefix(d, path+"/") {
			return fmt.Errorf("remove %s: %w", path, unix.ENOTEMPTY)
		}
	}
	delete(h.dirs, path)
	delete(h.devices, path)
	return nil
}

// HasDir reports whether the directory was made and not removed.
func (h *Host) HasDir(path string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dirs[path]
}

// Resolve implements [mounts.Host]: there are no symbolic links.
func (h *Host) Resolve(path string) string { return path }

// Uptime implements [mounts.Host]; hosts do not sleep.
func (h *Host) Uptime() time.Duration { return time.Since(h.born) }

// BootID implements [mounts.Host].
func (h *Host) BootID() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.name + "/" + strconv.Itoa(h.boot)
}

// Move renames a directory with all that is below it, mounts included.
func (h *Host) Move(from, to string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	moved := func(path string) (string, bool) {
		rest, inside := strings.CutPrefix(path+"/", from+"/")
		return filepath.Join(to, rest), inside
	}
	h.table = slices.Clone(h.table)
	for i, e := range h.table {
		if point, inside := moved(e.Point); inside {
			next := *e
			next.Point = point
			h.table[i] = &next
		}
	}
	for d := range h.dirs {
		if path, inside := moved(d); inside {
			delete(h.dirs, d)
			h.dirs[path] = true
		}
	}
}
