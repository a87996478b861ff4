package client_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// What came to a node between the moment at which its disk was full and the one at which the servers knew has not failed: it
// waits for the disk, says so, and starts then. As a failure it would count for its restart and reschedule blocks.
func TestWhatComesToANodeWithAFullDiskWaitsForIt(t *testing.T) {
	b := setup(t)
	b.conf.RawExec.Enabled, b.conf.RawExec.NoCgroups = true, true
	b.conf.DiskInterval = 300 * time.Millisecond
	data := filepath.Dir(b.conf.StateDir)
	tmpfs(t, data, "size=16m")
	b.begin(t)
	full := filepath.Join(data, "fill")
	fill(t, full)
	comes := alloc("comes", job("service", "raw_exec", map[string]any{"command": "/bin/sleep", "args": []any{"1000"}}))
	b.place(comes)
	waits := func() bool {
		a := b.allocs["comes"]
		if a == nil || a.TaskStates["t"] == nil {
			return false
		}
		for _, e := range a.TaskStates["t"].Events {
			if e.Type == "Waiting" && strings.Contains(e.DisplayMessage, "The disk of the node is waited for") {
				return true
			}
		}
		return a.ClientStatus == api.AllocClientStatusFailed
	}
	b.until(t, "it waits", waits)
	b.edit(func() {
		if s := b.allocs["comes"].ClientStatus; s != api.AllocClientStatusPending {
			t.Errorf("it is %s", s)
			for _, e := range b.allocs["comes"].TaskStates["t"].Events {
				t.Log(e.Type, e.DisplayMessage)
			}
		}
	})
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	b.until(t, "running", func() bool { return b.status("comes") == api.AllocClientStatusRunning })
	b.edit(func() {
		if n := b.allocs["comes"].TaskStates["t"].Restarts; n != 0 {
			t.Errorf("it was started again %d times", n)
		}
	})
	b.place(stopped(comes))
	b.until(t, "ended", func() bool { return b.status("comes") == api.AllocClientStatusComplete })
}
