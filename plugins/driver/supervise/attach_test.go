package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise"
)

func TestSupervisingProcessThatDoesNotAnswerIsNotNone(t *testing.T) {
	state := filepath.Join(t.TempDir(), "s")
	if _, err := supervise.Find(t.Context(), state); !errors.Is(err, fault.NotFound) {
		t.Errorf("without a socket: %v", err)
	}
	l, err := net.Listen("unix", state+".sock")
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err = supervise.Find(ctx, state); !errors.Is(err, fault.Unavailable) {
		t.Errorf("busy: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err = supervise.Find(t.Context(), state); !errors.Is(err, fault.NotFound) {
		t.Errorf("after its end: %v", err)
	}
}

// TestStrangersInTheSessionOfAGoneTaskLive: after a reboot the number of the task's main process is that of a session
// whose leader has ended, as those of daemons have.
func TestStrangersInTheSessionOfAGoneTaskLive(t *testing.T) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		boot  string
		lives bool
	}{
		"of another boot": {"6d0d6d6b-0000-4000-8000-000000000000", true},
		"of some boot":    {"", true},
		"of this boot":    {strings.TrimSpace(string(boot)), false},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := exec.Command("setsid", "-w", "sh", "-c", `echo $$; sh -c 'sleep 300 >/dev/null 2>&1 </dev/null & echo $!'`).Output()
			if err != nil {
				t.Fatal(err)
			}
			var session, member int
			if _, err := fmt.Sscan(string(out), &session, &member); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = syscall.Kill(member, syscall.SIGKILL) })
			id := supervise.Ident{
				State: filepath.Join(t.TempDir(), "gone"), TaskID: "a/t/1", Boot: c.boot, PID: 4194000, Ticks: 100, TaskPID: session, TaskTicks: 101,
			}
			if _, err = supervise.Attach(t.Context(), id); !errors.Is(err, fault.NotFound) {
				t.Errorf("attach: %v", err)
			}
			for end := time.Now().Add(30 * time.Second); !c.lives && alive(member); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("what the task left lives on")
				}
			}
			if c.lives && !alive(member) {
				t.Error("a process that the task never had was killed")
			}
		})
	}
}

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z")
}

// An agent without descriptors cannot look: what it does not see is not gone.
func TestProcessesAreNotGoneForWantOfDescriptors(t *testing.T) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("sleep", "300")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	ticks, err := strconv.ParseUint(strings.Fields(string(stat))[21], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	id := supervise.Ident{
		State: filepath.Join(t.TempDir(), "s"), TaskID: "a/t/1", Boot: strings.TrimSpace(string(boot)), PID: c.Process.Pid, Ticks: ticks,
	}
	var had syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &had); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: had.Max}); err != nil {
		t.Fatal(err)
	}
	p := make(chan *supervise.Process, 1)
	go func() {
		got, err := supervise.Attach(t.Context(), id)
		if errors.Is(err, fault.NotFound) {
			t.Errorf("attach: %v", err)
		}
		p <- got
	}()
	select {
	case got := <-p:
		p <- got
	case <-time.After(100 * time.Millisecond): // it may wait for them
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &had); err != nil {
		t.Fatal(err)
	}
	if got := <-p; got != nil {
		got.Detach()
	}
	if !alive(c.Process.Pid) {
		t.Error("it was killed")
	}
}
