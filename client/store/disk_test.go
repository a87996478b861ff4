package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/store"
)

// small mounts a file system of 2 MiB; fill takes all its space, and free gives it back.
func small(t *testing.T) (dir string, fill, free func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("no tmpfs here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	fill = func() {
		f, err := os.Create(filepath.Join(dir, "fill"))
		for block := make([]byte, 4096); err == nil; {
			_, err = f.Write(block)
		}
		if f.Close(); !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
	}
	free = func() {
		if err := os.Remove(filepath.Join(dir, "fill")); err != nil {
			t.Fatal(err)
		}
	}
	return dir, fill, free
}

func TestFullDiskLosesNoRecord(t *testing.T) {
	dir, fill, free := small(t)
	path := filepath.Join(dir, "s.db")
	db := open(t, path)
	b := db.Bucket("volumes")
	if err := b.Put("row", []byte("old")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- db.Run(ctx) }()
	fill()
	big := make([]byte, 300<<10)
	if err := b.PutLater("lazy", big); err != nil {
		t.Fatal(err)
	}
	if err := db.PutTask("a1", "t", &store.TaskRecord{Attempt: 7, Handle: big}, true); err == nil {
		t.Fatal("a durable write to a full disk succeeds")
	}
	select {
	case <-db.Trouble():
	case <-time.After(30 * time.Second):
		t.Fatal("nobody is told of the trouble")
	}
	if err := b.Put("row", big); err == nil {
		t.Fatal("a durable write to a full disk succeeds")
	}
	if v, err := b.Get("row"); err != nil || string(v) != "old" {
		t.Errorf("a write that failed is seen: %d bytes, %v", len(v), err)
	}
	if v, err := b.Get("lazy"); err != nil || len(v) != len(big) {
		t.Errorf("a lazy write is not seen: %d bytes, %v", len(v), err)
	}
	free()
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, path)
	if v, err := again.Bucket("volumes").Get("lazy"); err != nil || len(v) != len(big) {
		t.Errorf("the lazy write is lost: %d bytes, %v", len(v), err)
	}
	if v, err := again.Bucket("volumes").Get("row"); err != nil || string(v) != "old" {
		t.Errorf("row is %d bytes, %v", len(v), err)
	}
	if v, err := again.Bucket("tasks").Get("a1/t"); err != nil || len(v) < len(big) {
		t.Errorf("the task is lost: %d bytes, %v", len(v), err)
	}
}
