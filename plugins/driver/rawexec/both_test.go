package rawexec_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise"
)

// killBoth starts a task with a process in a session of its own, and kills agent and supervising process. It returns that
// process, which goes on.
func killBoth(t *testing.T, stateDir string) (task *driver.Task, left int) {
	t.Helper()
	task = suite.NewTask(t, sh(`setsid sh -c 'echo $$; exec sleep 1000' & wait`))
	h := startInAgent(t, stateDir, task)
	suite.Eventually(t, "the pid of the child", func() bool {
		left, _ = strconv.Atoi(strings.TrimSpace(suite.LogText(task, "stdout")))
		return left > 1
	})
	t.Cleanup(func() { _ = syscall.Kill(left, syscall.SIGKILL) })
	var id supervise.Ident
	if err := json.Unmarshal(h.State, &id); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(id.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the supervising process has ended", func() bool { return hasEnded(id.PID) && hasEnded(id.TaskPID) })
	if hasEnded(left) {
		t.Fatal("nothing is left of the task")
	}
	return task, left
}

// Agent and supervising process are killed together before the handle was stored. What is left of the attempt has
// ended when the next agent has looked for it, or for attempts without a record, or starts it again.
func TestWhatIsLeftOfAnAttemptWithoutAHandleEnds(t *testing.T) {
	for name, look := range map[string]func(*rawexec.Driver, *driver.Task) error{
		"looked for": func(d *rawexec.Driver, task *driver.Task) error {
			if _, err := d.Find(suite.Context(t), task.ID); !errors.Is(err, fault.NotFound) {
				return errors.Join(errors.New("find: want not found"), err)
			}
			return nil
		},
		"pruned while not all allocations are known": func(d *rawexec.Driver, _ *driver.Task) error {
			_, err := d.Prune(suite.Context(t), nil, false)
			return err
		},
		"started again": func(d *rawexec.Driver, task *driver.Task) error {
			_, err := d.Start(suite.Context(t), task)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := newDriver(t, dir)
			task, left := killBoth(t, dir)
			t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
			if err := look(d, task); err != nil {
				t.Fatal(err)
			}
			if !hasEnded(left) {
				t.Error("a process of the attempt runs without a supervising process")
			}
		})
	}
}
