package attacks

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// TestAFrozenHolderLosesItsLock freezes the holder of a lock and its command, as the pause of a machine does. Another takes the lock
// after its TTL and delay; when the first one thaws, its command ends.
func TestAFrozenHolderLosesItsLock(t *testing.T) {
	t.Parallel()
	a := kit.PrepareGuarded(t)
	a.Launch()
	a.Ready(1)
	beats := filepath.Join(t.TempDir(), "beats")
	lock := func(name string) *exec.Cmd {
		cmd := exec.Command(a.Binary, "var", "lock", "-ttl", "10s", "-delay", "1s", "app/lock", fmt.Sprintf("while :; do echo %s >> %s; sleep 0.1; done", name, beats))
		cmd.Env = append(os.Environ(), "NOMAD_ADDR="+a.API.Address(), "NOMAD_TOKEN="+kit.ManagementToken, "SHELL=/bin/sh")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd
	}
	last := func() string {
		body, _ := os.ReadFile(beats)
		lines := strings.Fields(string(body))
		return append([]string{""}, lines...)[len(lines)]
	}
	runs := func(name string) {
		t.Helper()
		a.Until(40*time.Second, name+" to run", func() error {
			if last() != name {
				return errors.New("it does not")
			}
			return nil
		})
	}
	first := lock("first")
	runs("first")
	frozen := append(children(t, first.Process.Pid), first.Process.Pid)
	if len(frozen) < 2 {
		t.Fatal("the holder has no command")
	}
	for _, pid := range frozen {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	second := lock("second")
	runs("second")
	for _, pid := range frozen[:len(frozen)-1] {
		if !kit.Lives(pid) {
			t.Error("the frozen command ended before it thawed")
		}
	}
	if err := first.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	a.Until(20*time.Second, "the command of the first holder to end", func() error {
		for _, pid := range frozen[:len(frozen)-1] {
			if kit.Lives(pid) {
				return fmt.Errorf("process %d lives", pid)
			}
		}
		return nil
	})
	if err := first.Wait(); err == nil {
		t.Error("the first holder reports no error")
	}
	runs("second")
	if err := second.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = second.Wait()
}

// children are the processes that a process has started, and theirs.
func children(t *testing.T, pid int) (all []int) {
	t.Helper()
	list, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range list {
		body, _ := os.ReadFile(file) // a thread that ended has none
		for _, word := range strings.Fields(string(body)) {
			var child int
			if _, err := fmt.Sscan(word, &child); err != nil {
				t.Fatal(err)
			}
			all = append(append(all, child), children(t, child)...)
		}
	}
	return all
}
