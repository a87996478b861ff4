package rawexec_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

// No agent will ever find the supervising process again: it ends its task, and itself.
func TestTaskThatNobodyCanFindEnds(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, dir string){
		"its state was detached": func(t *testing.T, dir string) {
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				t.Fatal(err)
			}
		},
		"its state was removed": func(t *testing.T, dir string) {
			shards, _ := filepath.Glob(dir + "/?")
			for _, s := range shards {
				if err := os.RemoveAll(s); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, d := onOwnDisk(t)
			task, _, _ := waits(t, d)
			main, supervisor := pidOf(t, d, task.ID, "pid"), pidOf(t, d, task.ID, "supervisor_pid")
			lose(t, dir)
			if err := d.Signal(t.Context(), task.ID, "SIGNULL"); err != nil {
				t.Errorf("while its agent is there: %v", err)
			}
			if hasEnded(main) {
				t.Error("it ended while its agent was there")
			}
			_ = d.Close()
			suite.Eventually(t, "both have ended", func() bool { return hasEnded(main) && hasEnded(supervisor) })
		})
	}
}

// The path of the state proves nothing: the exit is on record where the lock is, and the supervising process ends.
func TestExitIsOnRecordWhereTheStateIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ moved, away bool }{
		"detached, with an agent": {},
		"detached, without":       {away: true},
		"moved":                   {moved: true, away: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, d := onOwnDisk(t)
			elsewhere := t.TempDir()
			if err := unix.Mount(dir, elsewhere, "", unix.MS_BIND, ""); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(elsewhere, unix.MNT_DETACH) })
			task, h, end := waits(t, d)
			supervisor := pidOf(t, d, task.ID, "supervisor_pid")
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				t.Fatal(err)
			}
			if c.away {
				_ = d.Close()
			}
			if err := os.WriteFile(end, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if !c.away {
				if x, err := d.Wait(suite.Context(t), task.ID); err != nil || x.Code != 3 {
					t.Errorf("exit %+v %v", x, err)
				}
			}
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("supervising: %s", threadsOf(supervisor))
				}
			})
			suite.Eventually(t, "the supervising process has ended", func() bool { return hasEnded(supervisor) })
			if c.moved { // to where it was
				if err := unix.Mount(elsewhere, dir, "", unix.MS_BIND, ""); err != nil {
					t.Fatal(err)
				}
				again := newDriver(t, dir)
				if err := again.Recover(suite.Context(t), h); err != nil {
					t.Fatal(err)
				}
				if x, err := again.Wait(suite.Context(t), task.ID); err != nil || x.Code != 3 {
					t.Errorf("exit %+v %v", x, err)
				}
			}
			if exits, _ := filepath.Glob(elsewhere + "/*/*.exit"); len(exits) != 1 {
				t.Errorf("on record are %v", exits)
			}
		})
	}
}
