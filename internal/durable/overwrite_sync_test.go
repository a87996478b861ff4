package durable

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// A process that ends between its write and its sync leaves a newest copy that is not on the disk. The next one must not
// overwrite the other copy before: a loss of power then could leave neither.
func TestNewestCopyIsOnTheDiskBeforeTheOlderOneIsOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, text := range []string{"first", "second"} {
		if err := Overwrite(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	disk := content(t, path)
	real := syncData
	defer func() { syncData = real }()
	type killed struct{}
	syncs, last := 0, 2
	syncData = func(f *os.File) error {
		if syncs++; syncs == last { // the sync of the copy that was written
			panic(killed{})
		}
		disk = content(t, path)
		return real(f)
	}
	interrupted := func(text string) {
		defer func() {
			if r := recover(); r != (killed{}) {
				t.Fatal(r)
			}
		}()
		syncs = 0
		_ = Overwrite(path, []byte(text), 0o600)
	}
	interrupted("third, whose writer ends")
	interrupted("fourth, whose writer ends")
	// Of what the disk does not have yet it may have any part of both copies when the power is lost.
	torn := content(t, path)
	for from := blockSize; from < len(torn); from += blockSize {
		if !bytes.Equal(torn[from:from+blockSize], disk[from:from+blockSize]) {
			torn[from+copyHeader]++
		}
	}
	if err := os.WriteFile(path, torn, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(path); err != nil || string(got) != "third, whose writer ends" {
		t.Errorf("%q, %v", got, err)
	}
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
