package client_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
)

// The servers replace such a group when its time without servers is over: an agent that is started anew meanwhile does not
// begin that time again.
func TestTimeWithoutServersGoesOnOverARestartOfTheAgent(t *testing.T) {
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		t.Fatal(err)
	}
	b := setup(t)
	b.conf.RawExec.Enabled, b.conf.RawExec.NoCgroups = true, true
	b.start(t)
	sleeps := map[string]any{"command": "/bin/sleep", "args": []any{"1000"}}
	j := job("service", "raw_exec", sleeps)
	j.TaskGroups[0].Disconnect = &api.DisconnectStrategy{StopOnClientAfter: time.Duration(up.Nano() / 2)}
	b.place(alloc("a1", j))
	b.place(alloc("a2", job("service", "raw_exec", sleeps)))
	b.until(t, "running", func() bool {
		return b.status("a1") == api.AllocClientStatusRunning && b.status("a2") == api.AllocClientStatusRunning
	})
	note := filepath.Join(b.conf.StateDir, "heard")
	var boot string
	var sent int64
	eventually(t, "a note of the last heartbeat", func() bool {
		body, _ := os.ReadFile(note)
		n, _ := fmt.Sscan(string(body), &boot, &sent)
		return n == 2
	})
	b.stop()
	b.edit(func() { b.deaf = true })
	if err := os.WriteFile(note, []byte(boot+" 1"), 0o600); err != nil { // as if nobody had answered since the machine was started
		t.Fatal(err)
	}
	b.start(t)
	runs := func(id string) bool {
		s, err := call(t, b.servers, wire.ClientAllocStats, &api.AllocRequest{AllocID: id})
		return err == nil && len(s.Stats.Tasks) == 1
	}
	eventually(t, "no task of a1", func() bool { return !runs("a1") && runs("a2") })
}
