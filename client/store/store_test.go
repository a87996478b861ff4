package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/store"
)

func open(t *testing.T, path string) *store.DB {
	t.Helper()
	db, err := store.Open(path, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestValuesOutliveTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "client", "state.db")
	db := open(t, path)
	b := db.Bucket("volumes")
	if err := errors.Join(b.Put("a", []byte("1")), b.PutLater("b", nil), b.Put("c", []byte("3")), b.Delete("c"), b.Delete("never")); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Put("d", nil); !errors.Is(err, fault.Unavailable) {
		t.Fatalf("write after close: %v", err)
	}
	all, err := open(t, path).Bucket("volumes").All()
	if err != nil || len(all) != 2 || string(all["a"]) != "1" || all["b"] == nil {
		t.Fatalf("reopened: %q %v", all, err)
	}
}

func TestQueuedWritesAreSeenByReaders(t *testing.T) {
	for name, db := range map[string]*store.DB{"memory": store.Memory(), "file": open(t, filepath.Join(t.TempDir(), "s.db"))} {
		b := db.Bucket("x")
		if err := errors.Join(b.Put("gone", []byte("old")), b.PutLater("k", []byte("new")), b.PutLater("gone", []byte("newer"))); err != nil {
			t.Fatal(err)
		}
		if v, err := b.Get("k"); err != nil || string(v) != "new" {
			t.Errorf("%s: get: %q %v", name, v, err)
		}
		if err := b.Delete("gone"); err != nil {
			t.Fatal(err)
		}
		if all, err := b.All(); err != nil || len(all) != 1 {
			t.Errorf("%s: all: %q %v", name, all, err)
		}
		if v, err := b.Get("gone"); err != nil || v != nil {
			t.Errorf("%s: deleted value is there: %q %v", name, v, err)
		}
	}
}

func TestLazyWritesBecomeDurableWhileRunning(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	db := open(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- db.Run(ctx) }()
	if err := db.Bucket("x").PutLater("k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copy.db")
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, body, 0o600); err != nil {
		t.Fatal(err)
	}
	if v, err := open(t, copied).Bucket("x").Get("k"); err != nil || string(v) != "v" {
		t.Fatalf("in the file after Run: %q %v", v, err)
	}
}

func TestManyWritersShareCommits(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "s.db"))
	const writers = 400
	var all sync.WaitGroup
	start := time.Now()
	for i := range writers {
		all.Go(func() {
			if err := db.PutTask(fmt.Sprint("alloc", i), "web", &store.TaskRecord{Attempt: uint64(i)}, true); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	t.Logf("%d durable writes took %s", writers, time.Since(start))
	if v, err := db.Bucket("tasks").All(); err != nil || len(v) != writers {
		t.Fatalf("%d values, %v", len(v), err)
	}
}

func TestFileOfAnotherAgentIsRefusedByName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	open(t, path)
	_, err := store.Open(path, hclog.NewNullLogger())
	if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), path) {
		t.Fatalf("got %v", err)
	}
}

// An agent that was killed before its first write leaves a store that does not count as lost.
func TestStoreIsFreshOnlyOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	if !open(t, path).Fresh() {
		t.Fatal("a new store is not fresh")
	}
	asKilled, err := os.ReadFile(path) // the first store is still open and nothing was written to it
	if err != nil {
		t.Fatal(err)
	}
	again := filepath.Join(t.TempDir(), "s.db")
	if err := os.WriteFile(again, asKilled, 0o600); err != nil {
		t.Fatal(err)
	}
	if open(t, again).Fresh() {
		t.Error("the store of a killed agent counts as lost")
	}
}

func TestDamagedFileIsMovedAside(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"garbage": func([]byte) []byte { return []byte(strings.Repeat("no database ", 9000)) },
		"short":   func(b []byte) []byte { return b[:100] },
		"hole": func(b []byte) []byte {
			clear(b[2*os.Getpagesize():])
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.db")
			db := open(t, path)
			for i := range 200 {
				if err := db.Bucket("x").PutLater(fmt.Sprint(i), make([]byte, 500)); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			body, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(body), 0o600); err != nil {
				t.Fatal(err)
			}
			if all, err := open(t, path).Bucket("x").All(); err != nil || len(all) != 0 {
				t.Fatalf("%d values, %v", len(all), err)
			}
			if kept, _ := filepath.Glob(path + ".damaged-*"); len(kept) != 1 {
				t.Fatalf("moved aside: %v", kept)
			}
		})
	}
}

func TestRecordsOfAllocations(t *testing.T) {
	db := store.Memory()
	job := &api.Job{ID: "web", TaskGroups: []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{{Name: "t", Config: map[string]any{"n": int64(1)}}}}}}
	alloc := &api.Allocation{ID: "a1", Job: job, TaskGroup: "g"}
	record := &store.TaskRecord{State: &api.TaskState{State: api.TaskStateRunning}, Attempt: 2, Handle: []byte("{}")}
	if err := errors.Join(db.PutAlloc(alloc), db.Journal("a1").Mark("volumes", "up"), db.PutTask("a1", "t", record, true),
		db.PutTask("a2", "orphan", record, false), db.Bucket("allocs").Put("bad", []byte{9, 9})); err != nil {
		t.Fatal(err)
	}
	all, err := db.Allocs()
	if err != nil || len(all) != 1 {
		t.Fatalf("%v %v", all, err)
	}
	got := all["a1"]
	if got.Alloc.Group().Tasks[0].Config["n"] != int64(1) || got.Steps["volumes"] != "up" || got.Tasks["t"].Attempt != 2 ||
		got.Tasks["t"].State.State != api.TaskStateRunning {
		t.Fatalf("got %+v", got)
	}
	if err := db.DeleteAlloc("a1"); err != nil {
		t.Fatal(err)
	}
	for _, bucket := range []string{"steps", "tasks"} {
		left, err := db.Bucket(bucket).All()
		if err != nil {
			t.Fatal(err)
		}
		for key := range left {
			if strings.HasPrefix(key, "a1") {
				t.Errorf("%s keeps %s", bucket, key)
			}
		}
	}
}

// TestRecordThatCannotBeStoredHurtsNobodyElse: writes of several allocations are committed together.
func TestRecordThatCannotBeStoredHurtsNobodyElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db, err := store.Open(path, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	rec := &store.TaskRecord{State: &api.TaskState{State: "dead"}}
	if err := db.PutAlloc(&api.Allocation{ID: "other"}); err != nil {
		t.Fatal(err)
	}
	if err := db.PutTask("other", "web", rec, false); err != nil {
		t.Fatal(err)
	}
	for _, durable := range []bool{false, true} {
		if err := db.PutTask("bad", strings.Repeat("t", 40_000), rec, durable); !errors.Is(err, fault.Invalid) {
			t.Errorf("durable %v: %v", durable, err)
		}
	}
	if err := db.Bucket("b").Put("", nil); !errors.Is(err, fault.Invalid) {
		t.Errorf("without a key: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if db, err = store.Open(path, hclog.NewNullLogger()); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	all, err := db.Allocs()
	if err != nil || all["other"] == nil || all["other"].Tasks["web"] == nil {
		t.Errorf("the record of another allocation is lost: %v %v", all, err)
	}
}
