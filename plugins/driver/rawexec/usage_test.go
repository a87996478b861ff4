package rawexec

import (
	"os"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/plugins/driver"
)

// TestUsageDoesNotFollowTheHostsClock measures a busy task while the host's clock says that it has not begun yet, or
// began long ago.
func TestUsageDoesNotFollowTheHostsClock(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("raw_exec needs root")
	}
	d := New(Config{Enabled: true, StateDir: t.TempDir()}, hclog.NewNullLogger())
	job := &driver.Task{ID: "busy", Name: "t", Dir: t.TempDir(), Config: map[string]any{
		"command": "/bin/sh", "args": []any{"-c", "while :; do :; done"},
	}}
	if _, err := d.Start(t.Context(), job); err != nil {
		t.Skipf("no task can be started: %v", err)
	}
	defer func() { _ = d.Destroy(t.Context(), "busy") }()
	running, err := d.task("busy")
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; {
		if u, _ := running.process.Usage(); u.User >= 20*tickTime {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the task uses nothing")
		}
	}
	for name, now := range map[string]time.Time{"set back": time.Now().Add(-time.Hour), "set forward": time.Now().Add(time.Hour)} {
		measured := &task{process: running.process}
		if got := measured.usage(now).ResourceUsage.CpuStats.Percent; got < 1 || got > 120 {
			t.Errorf("%s: a busy task uses %.1f %% of a processor", name, got)
		}
	}
}

// tickTime is the kernel's unit of processor time.
const tickTime = 10 * time.Millisecond
