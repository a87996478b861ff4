package store_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/client/store"
)

func TestFilesHoldValuesByAnyKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	f := store.InFiles(dir)
	if all, err := f.All(); err != nil || len(all) != 0 {
		t.Fatalf("%v, %v", all, err)
	}
	for _, key := range []string{"row/a/b", "stage/x", "../out", ".", "a%2Fb"} {
		for _, text := range []string{"first, which is longer", key} {
			if err := f.Put(key, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(f.Delete("stage/x"), f.Delete("never"), os.WriteFile(filepath.Join(dir, "new-1"), []byte("half"), 0o600)); err != nil {
		t.Fatal(err)
	}
	again := store.InFiles(dir)
	all, err := again.All()
	if got := slices.Sorted(maps.Keys(all)); err != nil || !slices.Equal(got, []string{".", "../out", "a%2Fb", "row/a/b"}) {
		t.Fatalf("%q, %v", got, err)
	}
	for key, raw := range all {
		if one, err := again.Get(key); err != nil || string(raw) != key || string(one) != key {
			t.Errorf("%s holds %q and %q, %v", key, raw, one, err)
		}
	}
	if raw, err := again.Get("stage/x"); raw != nil || err != nil {
		t.Errorf("%q, %v", raw, err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != len(all) {
		t.Errorf("%v, %v", names, err)
	}
}
