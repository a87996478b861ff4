package fsm

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

// stores are where raft keeps its log, its vote and its snapshots.
type stores struct {
	logs      raft.LogStore
	configs   *configLog
	stable    raft.StableStore
	snapshots raft.SnapshotStore
	closers   []io.Closer
}

func (s *stores) close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i].Close())
	}
	s.closers = nil
	return errors.Join(errs...)
}

func memoryStores() *stores {
	mem := raft.NewInmemStore()
	return &stores{logs: mem, stable: mem, snapshots: raft.NewInmemSnapshotStore()}
}

// diskStores opens dir/wal and dir/snapshots under the lock file dir/lock.
func diskStores(dir string, log hclog.Logger) (_ *stores, err error) {
	s := &stores{}
	defer func() {
		if err != nil {
			_ = s.close()
		}
	}()
	wal := filepath.Join(dir, "wal")
	if err := os.MkdirAll(wal, 0o700); err != nil {
		return nil, fmt.Errorf("make raft directory: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, lock)
	w, err := raftwal.Open(wal, raftwal.WithLogger(log.Named("wal")))
	if err != nil {
		return nil, damaged(dir, fmt.Errorf("open %s: %w", wal, err))
	}
	s.closers = append(s.closers, w)
	s.stable = w
	if s.logs, err = raft.NewLogCache(logCacheEntries, w); err != nil {
		return nil, fmt.Errorf("cache raft log: %w", err)
	}
	s.snapshots, err = raft.NewFileSnapshotStoreWithLogger(dir, snapshotsKept, log.Named("snapshot"))
	if err != nil {
		return nil, fmt.Errorf("open raft snapshots in %s: %w", dir, err)
	}
	if err := os.Chmod(filepath.Join(dir, "snapshots"), 0o700); err != nil { // the library makes it for all to read
		return nil, fmt.Errorf("close raft snapshots: %w", err)
	}
	return s, nil
}

// lockDir fails at once when another process holds the directory: the log itself would hang.
func lockDir(dir string) (io.Closer, error) {
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
