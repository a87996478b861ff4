package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftwal "github.com/hashicorp/raft-wal"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
)

const (
	logCacheEntries = 512
	snapshotsKept   = 2
)

// Stores are where raft keeps its log, its vote and its snapshots.
type Stores struct {
	Logs      raft.LogStore
	Stable    raft.StableStore
	Snapshots raft.SnapshotStore
	closers   []io.Closer
}

// Close closes the stores and gives the directory back.
func (s *Stores) Close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i].Close())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// Memory returns stores that keep nothing.
func Memory() *Stores {
	mem := raft.NewInmemStore()
	return &Stores{Logs: mem, Stable: mem, Snapshots: raft.NewInmemSnapshotStore()}
}

// Open opens dir/wal and dir/snapshots under the lock file dir/lock.
func Open(dir string, log hclog.Logger) (_ *Stores, err error) {
	s := &Stores{}
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	wal := filepath.Join(dir, "wal")
	if err := os.MkdirAll(wal, 0o700); err != nil {
		return nil, fmt.Errorf("make raft directory: %w", err)
	}
	lock, err := Lock(dir)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, lock)
	w, err := raftwal.Open(wal, raftwal.WithLogger(log.Named("wal")))
	if err != nil {
		return nil, damaged(dir, fmt.Errorf("open %s: %w", wal, err))
	}
	s.closers = append(s.closers, w)
	s.Stable = w
	if s.Logs, err = raft.NewLogCache(logCacheEntries, w); err != nil {
		return nil, fmt.Errorf("cache raft log: %w", err)
	}
	s.Snapshots, err = raft.NewFileSnapshotStoreWithLogger(dir, snapshotsKept, log.Named("snapshot"))
	if err != nil {
		return nil, fmt.Errorf("open raft snapshots in %s: %w", dir, err)
	}
	if err := os.Chmod(filepath.Join(dir, "snapshots"), 0o700); err != nil { // the library makes it for all to read
		return nil, fmt.Errorf("close raft snapshots: %w", err)
	}
	return s, nil
}

// Lock fails at once when another process holds the directory: the log itself would hang.
func Lock(dir string) (io.Closer, error) {
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open raft lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fault.New(fault.Conflict, "another agent uses the data directory %s", filepath.Dir(filepath.Clean(dir)))
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}
