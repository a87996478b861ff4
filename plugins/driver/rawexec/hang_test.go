package rawexec_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

// hangs are starts that wait for a file system which does not answer, in different places.
var hangs = map[string]struct {
	reportsRoot bool
	at          func(task *driver.Task, volume string)
}{
	"at a volume": {false, func(task *driver.Task, volume string) {
		task.Mounts = []driver.Mount{{Source: volume, Destination: "v"}}
	}},
	"at its program":                   {false, func(task *driver.Task, volume string) { task.Config["command"] = volume + "/x" }},
	"on the way to its work directory": {true, func(task *driver.Task, volume string) { task.Config["work_dir"] = volume }},
}

// startThatHangs begins a start that waits for a file system, and ends it when the test calls giveUp.
func startThatHangs(t *testing.T, d *rawexec.Driver, how string) (task *driver.Task, giveUp func() error, answer func()) {
	t.Helper()
	at, asked, answer := fuseThat(t, hangs[how].reportsRoot)
	task = suite.NewTask(t, sh("sleep 1000"))
	hangs[how].at(task, at)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := d.Start(ctx, task)
		done <- err
	}()
	t.Cleanup(cancel)
	select {
	case <-asked:
	case err := <-done:
		t.Fatalf("it did not hang: %v", err)
	case <-time.After(30 * time.Second):
		t.Fatal("the file system was never asked")
	}
	return task, func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(30 * time.Second):
			t.Fatal("the start cannot be given up")
			return nil
		}
	}, answer
}

// holders counts the processes that have a file in a directory open.
func holders(dir string) (n int) {
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && strings.HasPrefix(to, dir+"/") {
			n++
		}
	}
	return n
}

func TestStartThatHangsCanBeGivenUp(t *testing.T) {
	t.Parallel()
	for how := range hangs {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := newDriver(t, dir)
			task, giveUp, answer := startThatHangs(t, d, how)
			if left := d.Remains(task.ID); len(left) == 0 || left[0].Name != "nomad-supervise" {
				t.Errorf("it is started by %+v", left)
			}
			err := giveUp()
			if !driver.Recoverable(err) || !strings.Contains(err.Error(), "its start hangs: process ") || !strings.Contains(err.Error(), "is stuck in the kernel (D state") {
				t.Errorf("given up: %v", err)
			}
			if _, err := d.Start(suite.Context(t), task); !driver.Recoverable(err) || !strings.Contains(err.Error(), "an earlier start hangs") {
				t.Errorf("another start at the same time: %v", err)
			}
			answer()
			suite.Eventually(t, "nothing is left", func() bool { return len(files(t, dir)) == 0 && holders(dir) == 0 })
			task.Config, task.Mounts = sh("sleep 1000"), nil
			begin(t, d, task)
		})
	}
}

// The agent was killed while a start hung: the next one takes it up, can end it, and has the task if the hang ends.
func TestStartThatHangsOutlivesTheAgent(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]bool{"and is ended": true, "and goes on": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			task := suite.NewTask(t, sh("sleep 1000"))
			at, asked, answer := fuseThat(t, true)
			task.Config["work_dir"] = at
			startInKilledAgent(t, dir, task, asked)
			scopes := scopesOf(dir)
			d := newDriver(t, dir)
			h, err := d.Find(suite.Context(t), task.ID)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Recover(suite.Context(t), h); err != nil {
				t.Fatal(err)
			}
			if ends {
				stopped := make(chan error, 1)
				go func() { stopped <- d.Stop(context.WithoutCancel(t.Context()), task.ID, "SIGTERM", time.Millisecond) }()
				select {
				case err := <-stopped:
					if err != nil {
						t.Errorf("stop: %v", err)
					}
				case <-time.After(time.Minute):
					t.Fatal("the start cannot be ended")
				}
				if left := d.Remains(task.ID); len(left) > 0 {
					t.Errorf("left is what will never be the task's: %v", left)
				}
			}
			answer()
			if !ends {
				suite.Eventually(t, "the task runs, or could not be started", func() bool {
					st, err := d.Inspect(task.ID)
					return err != nil || st.State == driver.StateExited || st.Attributes["pid"] != "0"
				})
				if err := d.Signal(suite.Context(t), task.ID, "SIGKILL"); err != nil {
					t.Errorf("signal: %v", err)
				}
			}
			if _, err := d.Wait(suite.Context(t), task.ID); err != nil {
				t.Errorf("wait: %v", err)
			}
			if err := d.Destroy(bounded(t), task.ID); err != nil && !errors.Is(err, fault.NotFound) {
				t.Error(err)
			}
			suite.Eventually(t, "nothing is left", func() bool { return len(files(t, dir)) == 0 && holders(dir) == 0 })
			for _, s := range scopes {
				suite.Eventually(t, "its cgroup is removed", func() bool { return missing(s) })
			}
		})
	}
}
