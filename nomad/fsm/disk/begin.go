package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/api/fault"
)

// DamagedSnapshots is the directory next to "snapshots" for snapshots that could not be read.
const DamagedSnapshots = "snapshots.damaged"

// Loader is the state of a server.
type Loader interface {
	// Load reads a snapshot into the state.
	Load(r io.Reader) error
}

// Begun is what a start begins with.
type Begun struct {
	// Index is that of the restored snapshot, 0 when there is none.
	Index uint64
	// Damaged holds the names of newer snapshots that could not be read; Why is the reason.
	Damaged []string
	Why     error
}

// snapshotName is the name of a snapshot's directory: term, index and time in milliseconds.
type snapshotName struct {
	name                string
	term, index, millis uint64
}

// snapshotNames are those of all snapshots in the directory, the newest first, readable or not.
func snapshotNames(dir string) (all []snapshotName, err error) {
	entries, err := os.ReadDir(filepath.Join(dir, "snapshots"))
	for _, e := range entries {
		n := snapshotName{name: e.Name()}
		var rest string
		if got, _ := fmt.Sscanf(n.name+" .", "%d-%d-%d %s", &n.term, &n.index, &n.millis, &rest); got == 4 && rest == "." && e.IsDir() {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b snapshotName) int {
		return cmp.Or(cmp.Compare(b.term, a.term), cmp.Compare(b.index, a.index), cmp.Compare(b.millis, a.millis))
	})
	return all, err
}

// Begin restores the newest snapshot of the directory that can be read. An older one will do only where the log has
// all that lies between it and the newest: entries that this server has acknowledged must not be lost.
func Begin(m Loader, st *Stores, dir string) (Begun, error) {
	var b Begun
	all, err := snapshotNames(dir)
	if err != nil {
		return b, err
	}
	for _, n := range all {
		if b.Why != nil {
			if err := continues(st.Logs, n, all[0]); err != nil {
				return b, damaged(dir, fmt.Errorf("%w; the previous one, %s, cannot be used: %w", b.Why, n.name, err))
			}
		}
		err := beginWith(m, st.Snapshots, n)
		switch {
		case err == nil:
			b.Index = n.index
			return b, reaches(st.Logs, n.index, dir)
		case errors.Is(err, fault.Unimplemented):
			return b, fmt.Errorf("snapshot %s: %w", n.name, err)
		}
		b.Damaged, b.Why = append(b.Damaged, n.name), errors.Join(b.Why, fmt.Errorf("snapshot %s: %w", n.name, err))
	}
	if b.Why != nil {
		return b, damaged(dir, b.Why)
	}
	return b, reaches(st.Logs, 0, dir)
}

func beginWith(m Loader, snapshots raft.SnapshotStore, n snapshotName) error {
	meta, body, err := snapshots.Open(n.name)
	if err != nil {
		return err
	}
	defer body.Close()
	if meta.Index != n.index || meta.Term != n.term || meta.Version < raft.SnapshotVersionMin || meta.Version > raft.SnapshotVersionMax {
		return fault.New(fault.Invalid, "it contains entry %d of term %d in format %d", meta.Index, meta.Term, meta.Version)
	}
	return m.Load(body)
}

// continues returns an error when the log does not lead from one snapshot to another. A snapshot that a user restored follows from
// no log: it has an index of its own.
func continues(logs raft.LogStore, from, to snapshotName) error {
	for i := from.index + 1; i <= to.index; i++ {
		if err := VerifyEntry(logs, i); err != nil {
			return fmt.Errorf("entry %d of the log: %w", i, err)
		}
	}
	var l raft.Log
	if err := logs.GetLog(to.index, &l); err != nil {
		return fmt.Errorf("entry %d of the log: %w", to.index, err)
	}
	if l.Term != to.term {
		return fmt.Errorf("entry %d of the log is of term %d", to.index, l.Term)
	}
	return nil
}

// reaches returns an error when the log continues after an index but does not begin there.
func reaches(logs raft.LogStore, index uint64, dir string) error {
	first, err := logs.FirstIndex()
	if err != nil {
		return damaged(dir, fmt.Errorf("first index: %w", err))
	}
	if first <= index+1 {
		return nil
	}
	return damaged(dir, fmt.Errorf("it begins at entry %d and the newest snapshot ends at %d", first, index))
}

// SetAside moves snapshots that could not be read out of the way, so that others get the one that could.
func (b Begun) SetAside(dir string) error {
	if len(b.Damaged) == 0 {
		return nil
	}
	to := filepath.Join(dir, DamagedSnapshots)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return fmt.Errorf("set a damaged snapshot aside: %w", err)
	}
	for _, n := range b.Damaged {
		if err := os.Rename(filepath.Join(dir, "snapshots", n), filepath.Join(to, n)); err != nil {
			return fmt.Errorf("set a damaged snapshot aside: %w", err)
		}
	}
	return nil
}
