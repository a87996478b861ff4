package rawexec_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

// supervisorName is what the agent calls the supervising program.
const supervisorName = "nomad-supervise"

// muteMain makes this test binary a supervising program that is given its task, runs it, and whose answers no agent receives.
// The program itself is next to the directories of the state.
func muteMain() int {
	const agentFD, pump = 3, "pump"
	if len(os.Args) > 1 && os.Args[1] == pump {
		_, _ = io.Copy(os.NewFile(4, "supervisor"), os.NewFile(3, "agent"))
		time.Sleep(time.Minute) // what it sends is not read, and this end stays open
		return 0
	}
	self, err := os.Executable()
	fds, err2 := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if errors.Join(err, err2) != nil {
		return 1
	}
	c := &exec.Cmd{Path: self, Args: []string{supervisorName, pump}, ExtraFiles: []*os.File{os.NewFile(agentFD, "agent"), os.NewFile(uintptr(fds[0]), "pump")}}
	if err := c.Start(); err != nil {
		return 1
	}
	if err := errors.Join(syscall.Dup3(fds[1], agentFD, 0), syscall.Exec("../program", []string{supervisorName}, nil)); err != nil {
		return 1
	}
	return 0
}

// The agent gives a start up, at its own end or because the task must end, when the task has begun others already.
func TestStartThatIsGivenUpLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, noCgroups := range map[string]bool{"with a cgroup": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			self, err := os.Executable()
			if err = errors.Join(err, os.Symlink(program, filepath.Join(dir, "program"))); err != nil {
				t.Fatal(err)
			}
			d := newDriver(t, dir, func(c *rawexec.Config) { c.Program, c.NoCgroups = self, noCgroups })
			// What the child is not known by: its session and its environment.
			task := suite.NewTask(t, sh(`setsid env -i /bin/sh -c 'echo $$ >child.new; mv child.new child; exec sleep 1000' & wait`))
			ctx, cancel := context.WithCancel(suite.Context(t))
			defer cancel()
			done := make(chan error, 1)
			go func() {
				_, err := d.Start(ctx, task)
				done <- err
			}()
			child := 0
			suite.Eventually(t, "the task has begun a process", func() bool {
				b, _ := os.ReadFile(filepath.Join(task.Dir, "child"))
				child, _ = strconv.Atoi(strings.TrimSpace(string(b)))
				return child > 1
			})
			t.Cleanup(func() {
				if !hasEnded(child) {
					_ = syscall.Kill(child, syscall.SIGKILL)
				}
			})
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("given up: %v", err)
			}
			if !hasEnded(child) {
				t.Errorf("process %d is left", child)
			}
			if left := files(t, dir); len(left) > 0 {
				t.Errorf("files are left: %v", left)
			}
			if left, _ := filepath.Glob("/sys/fs/cgroup/*/nomad.slice/" + strings.ReplaceAll(task.ID, "/", "_") + "*"); len(left) > 0 {
				t.Errorf("cgroups are left: %v", left)
			}
		})
	}
}
