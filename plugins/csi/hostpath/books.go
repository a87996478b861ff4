package hostpath

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/open-nomad/open-nomad/internal/durable"
)

// volume is the record of a volume.
type volume struct {
	ID, Name string
	// Block volumes have an image file, others a directory.
	Block      bool
	SizeBytes  int64
	Topologies []map[string]string `json:",omitempty"`
	// CloneOf and SnapshotOf name the source of the data.
	CloneOf    string `json:",omitempty"`
	SnapshotOf string `json:",omitempty"`
	Parameters map[string]string
	// Attached are the nodes that the controller published the volume to.
	Attached map[string]attachment `json:",omitempty"`
	// Staged are the nodes on which the volume is, or may be, staged, with the path.
	Staged map[string]string `json:",omitempty"`
	// Deleting is set while the data is removed: the volume can be deleted, or made again, and nothing else.
	Deleting bool `json:",omitempty"`
}

type attachment struct {
	ReadOnly bool
	Mode     int32
	Block    bool
}

// snapshot is the record of a snapshot.
type snapshot struct {
	ID, Name, Source string
	Block            bool
	SizeBytes        int64
	Created          time.Time
	// Ready is when the snapshot may be used; zero means at once.
	Ready time.Time `json:",omitzero"`
	// Deleting is set while the data is removed.
	Deleting bool `json:",omitempty"`
}

func (s *snapshot) ready() bool { return !time.Now().Before(s.Ready) }

// node is what a node reports about itself.
type node struct {
	ID         string
	MaxVolumes int64
	Topology   map[string]string
}

// books is the state directory.
type books struct{ dir string }

func openBooks(dir string) (*books, error) {
	b := &books{dir}
	for _, sub := range []string{"volumes", "snapshots", "data", "nodes", "locks"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("make state directory: %w", err)
		}
	}
	return b, nil
}

func (b *books) check() error {
	if _, err := os.Lstat(filepath.Join(b.dir, "volumes")); err != nil {
		return fmt.Errorf("state directory is missing: %w", err)
	}
	return nil
}

// idOf derives an id from a name, so that a repeated creation finds the first one.
func idOf(prefix, name string) string {
	sum := sha256.Sum256([]byte(name))
	return prefix + "-" + hex.EncodeToString(sum[:16])
}

// isID reports whether an id is one that idOf made.
func isID(prefix, id string) bool {
	raw, err := hex.DecodeString(strings.TrimPrefix(id, prefix+"-"))
	return err == nil && len(raw) == 16 && strings.HasPrefix(id, prefix+"-")
}

func (b *books) data(id string) string             { return filepath.Join(b.dir, "data", id) }
func (b *books) image(node, id string) string      { return filepath.Join(b.dir, "nodes", node, id) }
func (b *books) path(kind, id string) string       { return filepath.Join(b.dir, kind, id+".json") }
func (b *books) nodeDir(node string) string        { return filepath.Join(b.dir, "nodes", node) }
func (b *books) volume(id string) (*volume, error) { return get[volume](b, "volumes", id) }
func (b *books) snapshot(id string) (*snapshot, error) {
	return get[snapshot](b, "snapshots", id)
}
func (b *books) node(id string) (*node, error) { return get[node](b, "nodes", id) }

// putVolume needs the volume's lock.
func (b *books) putVolume(v *volume) error {
	return b.put("volumes", v.ID, v, durable.Overwrite)
}

func (b *books) putSnapshot(s *snapshot) error {
	return b.put("snapshots", s.ID, s, durable.WriteFile)
}

func (b *books) putNode(c Config) error {
	if err := os.MkdirAll(b.nodeDir(c.NodeID), 0o700); err != nil {
		return fmt.Errorf("register node: %w", err)
	}
	return b.put("nodes", c.NodeID, &node{ID: c.NodeID, MaxVolumes: c.MaxVolumes, Topology: c.Topology}, durable.WriteFile)
}

// put replaces a record atomically and durably.
func (b *books) put(kind, id string, v any, write func(string, []byte, fs.FileMode) error) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	if err := write(b.path(kind, id), raw, 0o600); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return nil
}

func (b *books) drop(kind, id string) error {
	if err := os.Remove(b.path(kind, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove record: %w", err)
	}
	return nil
}

// get reads a record; a missing one is nil. Ids come from callers, so they must be plain file names.
func get[T any](b *books, kind, id string) (*T, error) {
	if id == "" || strings.ContainsAny(id, "/\x00") || strings.HasPrefix(id, ".") || len(id) > 200 {
		return nil, nil
	}
	raw, err := durable.Read(b.path(kind, id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read record: %w", err)
	}
	out := new(T)
	if err := json.Unmarshal(raw, out); err != nil {
		return nil, fmt.Errorf("record %s/%s: %w", kind, id, err)
	}
	return out, nil
}

// all reads the records of a kind in the order of their ids.
func all[T any](b *books, kind string) ([]*T, error) {
	names, err := os.ReadDir(filepath.Join(b.dir, kind))
	if err != nil {
		return nil, fmt.Errorf("list records: %w", err)
	}
	var ids []string
	for _, n := range names {
		if id, ok := strings.CutSuffix(n.Name(), ".json"); ok && !strings.HasPrefix(id, ".") {
			ids = append(ids, id)
		}
	}
	sort.Strings(ids)
	var out []*T
	for _, id := range ids {
		v, err := get[T](b, kind, id)
		if err != nil {
			return nil, err
		}
		if v != nil {
			out = append(out, v)
		}
	}
	return out, nil
}

// used sums the sizes of all volumes and snapshots.
func (b *books) used() (int64, error) {
	volumes, err := all[volume](b, "volumes")
	if err != nil {
		return 0, err
	}
	snapshots, err := all[snapshot](b, "snapshots")
	if err != nil {
		return 0, err
	}
	var n int64
	for _, v := range volumes {
		n += v.SizeBytes
	}
	for _, s := range snapshots {
		n += s.SizeBytes
	}
	return n, nil
}

// A lock is tried again after a pause that grows from the first to the second.
const (
	lockPauseMin = 100 * time.Microsecond
	lockPauseMax = 5 * time.Millisecond
)

// lock holds the lock of one id, against calls in this and in other processes. What has no lock in time
// gets ABORTED, as the specification asks.
func (b *books) lock(ctx context.Context, id string) (unlock func(), err error) {
	path := filepath.Join(b.dir, "lock")
	if id != "" {
		path = filepath.Join(b.dir, "locks", idOf("l", id))
	}
	return flock(ctx, path, id, unix.LOCK_EX)
}

// copying keeps the data of a volume or snapshot from being removed while it is copied, as often as there are copies.
func (b *books) copying(ctx context.Context, id string) (unlock func(), err error) {
	return flock(ctx, b.dataLock(id), id, unix.LOCK_SH)
}

// removing waits for the copies of the data of a volume or snapshot, and keeps others from beginning. It is taken before
// the lock of the id, so that no call waits for that meanwhile, and after the mark, or copies that follow each other would keep
// it from coming.
func (b *books) removing(ctx context.Context, id string) (unlock func(), err error) {
	return flock(ctx, b.dataLock(id), id, unix.LOCK_EX)
}

func (b *books) dataLock(id string) string { return filepath.Join(b.dir, "locks", idOf("d", id)) }

// flock locks a file for a call for id.
func flock(ctx context.Context, path, id string, how int) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	for pause := lockPauseMin; ; pause = min(2*pause, lockPauseMax) {
		switch err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); {
		case err == nil:
			return func() { f.Close() }, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			f.Close()
			return nil, fmt.Errorf("lock: %w", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			f.Close()
			return nil, status.Errorf(codes.Aborted, "another call for %s is pending", id)
		}
	}
}

// Violation is a line of the violation log.
type Violation struct {
	Time   time.Time
	Kind   string
	Volume string
	Node   string
	Text   string
}

// Kinds of violations.
const (
	// ViolationDoubleAttach is an attempt to attach a single-node volume to a second node.
	ViolationDoubleAttach = "double-attach"
	// ViolationNotAttached is an attempt to stage a volume that is not attached to the node.
	ViolationNotAttached = "not-attached"
	// ViolationDetachStaged is a ControllerUnpublish while the volume is staged on the node.
	ViolationDetachStaged = "detach-while-staged"
	// ViolationUnstageUsed is a NodeUnstage while the volume is published on the node.
	ViolationUnstageUsed = "unstage-while-published"
	// ViolationDeleteUsed is a DeleteVolume while the volume is attached or staged.
	ViolationDeleteUsed = "delete-while-used"
)

// Violations reads the violation log of a state directory.
func Violations(stateDir string) ([]Violation, error) {
	raw, err := os.ReadFile(filepath.Join(stateDir, "violations.log"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read violations: %w", err)
	}
	var out []Violation
	for line := range strings.Lines(string(raw)) {
		var v Violation
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			return out, fmt.Errorf("violation log: %w", err)
		}
		out = append(out, v)
	}
	return out, nil
}

// violation writes down what the orchestrator must not do.
func (d *driver) violation(kind, volumeID, nodeID, text string) {
	d.conf.Log.Error("violation", "kind", kind, "volume", volumeID, "node", nodeID, "text", text)
	raw, err := json.Marshal(Violation{time.Now(), kind, volumeID, nodeID, text})
	if err != nil {
		return
	}
	f, err := os.OpenFile(filepath.Join(d.books.dir, "violations.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		d.conf.Log.Error("write violation", "error", err)
		return
	}
	_, err = f.Write(append(raw, '\n'))
	if err = errors.Join(err, f.Close()); err != nil {
		d.conf.Log.Error("write violation", "error", err)
	}
}
