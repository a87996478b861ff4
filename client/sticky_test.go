package client_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// sticky makes the allocation one with a sticky disk that follows another one.
func sticky(id, previous string, index uint64) api.Allocation {
	j := job("service", "mock_driver", map[string]any{"run_for": "1h"})
	j.TaskGroups[0].EphemeralDisk = &api.EphemeralDisk{SizeMB: 10, Sticky: true}
	a := alloc(id, j)
	a.PreviousAllocation, a.CreateIndex = previous, index
	return a
}

func (b *bench) file(parts ...string) string {
	return filepath.Join(append([]string{b.conf.AllocDir}, parts...)...)
}

func (b *bench) put(t *testing.T, text string, parts ...string) {
	t.Helper()
	if err := os.WriteFile(b.file(parts...), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) has(t *testing.T, want string, parts ...string) {
	t.Helper()
	if got, err := os.ReadFile(b.file(parts...)); string(got) != want {
		t.Errorf("%v: %q, %v, want %q", parts, got, err, want)
	}
}

func TestStickyDataFollowsTheAllocations(t *testing.T) {
	b := setup(t)
	b.conf.GC.MaxAllocs = 1 // ended ones are removed at once, unless their data is wanted
	b.start(t)
	first := sticky("a1", "", 1)
	b.place(first)
	b.until(t, "a1 runs", func() bool { return b.status("a1") == api.AllocClientStatusRunning })
	b.put(t, "shared", "a1", "alloc", "data", "s")
	b.put(t, "own", "a1", "t", "local", "o")
	b.place(sticky("a2", "a1", 2))
	b.place(stopped(first))
	b.until(t, "a2 runs", func() bool {
		runs := b.status("a2") == api.AllocClientStatusRunning
		if runs && b.status("a1") == api.AllocClientStatusRunning {
			t.Error("a2 runs while a1 does")
		}
		return runs
	})
	b.has(t, "shared", "a2", "alloc", "data", "s")
	b.has(t, "own", "a2", "t", "local", "o")

	// The next one ends before it gets the data, and the agent is restarted: the last one gets the data.
	second := sticky("a2", "a1", 2)
	b.stop()
	b.conf.GC.MaxAllocs = 50
	b.start(t)
	b.place(stopped(sticky("a3", "a2", 3)))
	b.until(t, "a3 is complete", func() bool { return b.status("a3") == api.AllocClientStatusComplete })
	b.place(stopped(second))
	b.place(sticky("a4", "a3", 4))
	b.until(t, "a4 runs", func() bool { return b.status("a4") == api.AllocClientStatusRunning })
	b.has(t, "shared", "a4", "alloc", "data", "s")
	b.has(t, "own", "a4", "t", "local", "o")

	b.stop() // a restart moves nothing again
	b.put(t, "more", "a4", "t", "local", "m")
	b.start(t)
	b.until(t, "a4 runs", func() bool { return b.status("a4") == api.AllocClientStatusRunning })
	b.has(t, "more", "a4", "t", "local", "m")
}

func TestStickyDiskOfAnotherNodeStartsEmptyWithAnEvent(t *testing.T) {
	b := setup(t)
	b.start(t)
	b.place(sticky("a2", "elsewhere", 2))
	b.until(t, "a2 runs", func() bool { return b.status("a2") == api.AllocClientStatusRunning })
	b.until(t, "event", func() bool {
		for _, e := range b.allocs["a2"].TaskStates["t"].Events {
			if e.Type == "Ephemeral Disk" && strings.Contains(e.DisplayMessage, "allocation elsewhere is not on this node") {
				return true
			}
		}
		return false
	})
}
