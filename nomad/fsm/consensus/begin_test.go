package consensus_test

import (
	"encoding/json"
	"errors"
	"hash/crc64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm/consensus"
	"github.com/open-nomad/open-nomad/nomad/fsm/recovery"
)

// snapshotTwice is the directory of a server that has written "one" and "two" to two snapshots, and "three" after them.
func snapshotTwice(t *testing.T, trailing uint64) (dir string, snapshots []string) {
	t.Helper()
	dir = t.TempDir()
	c, _ := config(t, dir)
	c.TrailingLogs = trailing
	r, err := consensus.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	lead(t, r)
	for _, name := range []string{"one", "two"} {
		propose(t, r, name, name+" more")
		if err := r.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	propose(t, r, "three")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	snapshots, err = filepath.Glob(filepath.Join(dir, "snapshots", "*-*-*"))
	if err != nil || len(snapshots) != 2 {
		t.Fatalf("snapshots: %v, %v", snapshots, err)
	}
	slices.Sort(snapshots)
	return dir, snapshots
}

// harms are ways in which a snapshot cannot be read.
var harms = map[string]func(t *testing.T, snapshot string){
	"flipped": func(t *testing.T, snapshot string) { rewrite(t, filepath.Join(snapshot, "state.bin"), flip) },
	"nameless": func(t *testing.T, snapshot string) {
		rewrite(t, filepath.Join(snapshot, "meta.json"), func([]byte) []byte { return nil })
	},
	"not decoded": func(t *testing.T, snapshot string) { // as a broken program would have written it
		var sum []byte
		rewrite(t, filepath.Join(snapshot, "state.bin"), func(b []byte) []byte {
			b = flip(b)
			h := crc64.New(crc64.MakeTable(crc64.ECMA))
			_, _ = h.Write(b)
			sum = h.Sum(nil)
			return b
		})
		rewrite(t, filepath.Join(snapshot, "meta.json"), func(b []byte) []byte {
			meta := map[string]any{}
			if err := json.Unmarshal(b, &meta); err != nil {
				t.Fatal(err)
			}
			meta["CRC"] = sum
			b, _ = json.Marshal(meta)
			return b
		})
	},
}

func flip(b []byte) []byte {
	b[len(b)/2] ^= 0xff
	return b
}

func rewrite(t *testing.T, path string, how func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, how(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestADamagedSnapshotIsMadeUpForByTheOneBeforeAndTheLog(t *testing.T) {
	t.Parallel()
	for what, harm := range harms {
		dir, snapshots := snapshotTwice(t, 1000)
		harm(t, snapshots[1])
		if out := recovered(t, recovery.Plan{Dir: dir}); out.Bad != 0 || out.Snapshot == 0 || len(out.Damaged) != 1 {
			t.Errorf("%s: a look at it says %+v", what, out)
		}
		r, has := restarted(t, dir)
		for _, name := range []string{"one", "two", "three"} {
			if !has(name) {
				t.Errorf("%s: %s is gone", what, name)
			}
		}
		propose(t, r, "four")
		if left, _ := filepath.Glob(filepath.Join(dir, "snapshots.damaged", "*")); len(left) != 1 || filepath.Base(left[0]) != filepath.Base(snapshots[1]) {
			t.Errorf("%s: set aside: %v", what, left)
		}
		if err := r.Snapshot(t.Context()); err != nil {
			t.Errorf("%s: the next snapshot: %v", what, err)
		}
	}
}

// Whoever counts on what a server has written must find it there.
func TestADamagedSnapshotThatTheLogCannotMakeUpForEndsTheStartWithWords(t *testing.T) {
	t.Parallel()
	for what, harm := range harms {
		dir, snapshots := snapshotTwice(t, 1)
		harm(t, snapshots[1])
		c, _ := config(t, dir)
		r, err := consensus.Open(c)
		if err == nil {
			_ = r.Close()
			t.Fatalf("%s: it started", what)
		}
		for _, word := range []string{filepath.Base(snapshots[1]), "move " + dir + " away", "nomad operator raft recover"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q is not in %v", what, word, err)
			}
		}
		if _, err := os.Stat(snapshots[1]); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestALogWithoutItsSnapshotEndsTheStartWithWords(t *testing.T) {
	t.Parallel()
	dir, _ := snapshotTwice(t, 1)
	if err := os.RemoveAll(filepath.Join(dir, "snapshots")); err != nil {
		t.Fatal(err)
	}
	c, _ := config(t, dir)
	if r, err := consensus.Open(c); err == nil {
		_ = r.Close()
		t.Error("it started")
	} else if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "move "+dir+" away") {
		t.Error(err)
	}
}
