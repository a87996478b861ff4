package diskuse_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/diskuse"
)

func TestBytes(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	deep := filepath.Join(dir, strings.Repeat("d/", 100))
	err := errors.Join(
		os.WriteFile(filepath.Join(dir, "one"), make([]byte, 1<<20), 0o600),
		os.Link(filepath.Join(dir, "one"), filepath.Join(dir, "again")),
		os.MkdirAll(filepath.Join(dir, "sub", "sub"), 0o700),
		os.WriteFile(filepath.Join(dir, "sub", "sub", "two"), make([]byte, 2<<20), 0o600),
		os.WriteFile(outside, make([]byte, 4<<20), 0o600),
		os.Symlink(outside, filepath.Join(dir, "file")),
		os.Symlink(filepath.Dir(outside), filepath.Join(dir, "dir")),
		os.Truncate(filepath.Join(dir, "again"), 8<<20), // a hole takes no space
		os.MkdirAll(deep, 0o700),
		unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	got, err := diskuse.Bytes(context.Background(), dir)
	if want := int64(3 << 20); err != nil || got < want || got > want+(1<<20) {
		t.Errorf("%d bytes, %v; want about 3 MiB", got, err)
	}
}

func TestMountsAreNotCounted(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "volume")
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("no mount here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	if err := os.WriteFile(filepath.Join(at, "data"), make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := diskuse.Bytes(context.Background(), dir); err != nil || got > 1<<20 {
		t.Errorf("%d bytes, %v", got, err)
	}
}

func TestBytesEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := diskuse.Bytes(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
