package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.etcd.io/bbolt"
	bolterr "go.etcd.io/bbolt/errors"

	"github.com/open-nomad/open-nomad/api/fault"
)

// lockWait bounds the wait for another agent's lock on the file.
const lockWait = time.Second

// file is the bbolt backend.
type file struct{ bolt *bbolt.DB }

func openFile(path string, log hclog.Logger) (f *file, fresh bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, false, fmt.Errorf("make directory of client state: %w", err)
	}
	b, err := openBolt(path)
	switch {
	case err == nil:
		f = &file{b}
		return f, f.empty(), nil
	case errors.Is(err, bolterr.ErrTimeout):
		return nil, false, fault.New(fault.Conflict, "client state %s is locked by another agent", path)
	case !damaged(err):
		return nil, false, fmt.Errorf("open client state %s: %w", path, err)
	}
	aside := fmt.Sprintf("%s.damaged-%d", path, time.Now().UnixNano())
	if err := os.Rename(path, aside); err != nil {
		return nil, false, fmt.Errorf("move damaged client state aside: %w", err)
	}
	log.Error("client state was damaged: it is moved aside and the node starts with an empty one",
		"file", path, "kept_as", aside, "error", err)
	if b, err = openBolt(path); err != nil {
		return nil, false, fmt.Errorf("open client state %s: %w", path, err)
	}
	return &file{b}, true, nil
}

// mapBytes is how much of the file is mapped from the start. bbolt replaces the mapping when the file outgrows it, and has none
// if that fails: a disk that is read-only at this moment ends the use of the database.
const mapBytes = 1 << 20

// openBolt opens the file after reading every page once: bbolt finds damage only when it steps on it, and
// then by a panic, when opened for writing even in a goroutine of its own.
func openBolt(path string) (*bbolt.DB, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		if err := check(path); err != nil {
			return nil, err
		}
	}
	return bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockWait, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, InitialMmapSize: mapBytes})
}

// check reads all pages; a missing page is a memory fault, which is turned into a panic and that into an error.
func check(path string) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	b, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockWait, ReadOnly: true})
	if err != nil {
		return err
	}
	tx, err := b.Begin(false)
	if err != nil {
		return errors.Join(err, b.Close())
	}
	defer func() {
		if r := recover(); r != nil {
			err = errDamaged{fmt.Errorf("%v", r)}
		}
		err = errors.Join(err, tx.Rollback(), b.Close())
	}()
	return tx.ForEach(func(_ []byte, bucket *bbolt.Bucket) error {
		return bucket.ForEach(func(_, _ []byte) error { return nil })
	})
}

type errDamaged struct{ error }

func damaged(err error) bool {
	var d errDamaged
	return errors.As(err, &d) || errors.Is(err, bolterr.ErrInvalid) || errors.Is(err, bolterr.ErrChecksum) ||
		errors.Is(err, bolterr.ErrVersionMismatch) || errors.Is(err, bolterr.ErrInvalidMapping)
}

// errDisk marks a commit that failed for the sake of the disk, and not of a value.
var errDisk = errors.New("client state cannot be written")

// apply writes the batch in one transaction; a batch that changes nothing costs no fsync.
func (f *file) apply(batch map[slot][]byte) error {
	tx, err := f.bolt.Begin(true)
	if err != nil {
		return fmt.Errorf("write client state: %w", err)
	}
	changed := false
	for at, value := range batch {
		wrote, err := put(tx, at, value)
		if err != nil {
			_ = tx.Rollback()
			return fmt.Errorf("write %s of client state: %w", at.key, err)
		}
		changed = changed || wrote
	}
	if !changed {
		return tx.Rollback()
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("%w: %w", errDisk, err)
	}
	return nil
}

func put(tx *bbolt.Tx, at slot, value []byte) (bool, error) {
	bucket := tx.Bucket([]byte(at.bucket))
	if bucket == nil && value == nil {
		return false, nil
	}
	if bucket == nil {
		var err error
		if bucket, err = tx.CreateBucket([]byte(at.bucket)); err != nil {
			return false, err
		}
	}
	old := bucket.Get([]byte(at.key))
	switch {
	case value == nil && old == nil:
		return false, nil
	case value == nil:
		return true, bucket.Delete([]byte(at.key))
	case old != nil && bytes.Equal(old, value):
		return false, nil
	}
	return true, bucket.Put([]byte(at.key), value)
}

func (f *file) get(at slot) (value []byte, err error) {
	err = f.bolt.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket([]byte(at.bucket)); b != nil {
			value = bytes.Clone(b.Get([]byte(at.key)))
		}
		return nil
	})
	return value, err
}

func (f *file) all(bucket, prefix string) (map[string][]byte, error) {
	out := map[string][]byte{}
	err := f.bolt.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(bucket))
		if b == nil {
			return nil
		}
		c := b.Cursor()
		for k, v := c.Seek([]byte(prefix)); k != nil && bytes.HasPrefix(k, []byte(prefix)); k, v = c.Next() {
			out[string(k)] = bytes.Clone(v)
		}
		return nil
	})
	return out, err
}

// empty reports whether nothing was ever written.
func (f *file) empty() bool {
	return f.bolt.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func([]byte, *bbolt.Bucket) error { return errNotEmpty })
	}) == nil
}

var errNotEmpty = errors.New("the database has a bucket")

func (f *file) close() error { return f.bolt.Close() }
