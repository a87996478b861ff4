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
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
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
			ask, answer := fifo(t), fifo(t)
			script := `echo $$; sh -c 'cat <"$0" >"$1" 2>/dev/null & echo $!' "$0" "$1"`
			out, err := exec.Command("setsid", "-w", "sh", "-c", script, ask.Name(), answer.Name()).Output()
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
			if !c.lives {
				return
			}
			// One with a signal that waits handles it before it answers.
			if _, err := ask.WriteString("?"); err != nil {
				t.Fatal(err)
			}
			if err := answer.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := answer.Read(make([]byte, 1)); err != nil {
				t.Errorf("a process that the task never had was killed: %v", err)
			}
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", member))
			if err != nil {
				t.Fatal(err)
			}
			for _, set := range []string{"SigPnd", "ShdPnd"} {
				if !strings.Contains(string(status), set+":\t0000000000000000\n") {
					t.Errorf("a signal waits for a process that the task never had: %s", status)
				}
			}
		})
	}
}

// fifo makes a named pipe.
func fifo(t *testing.T) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0) // with both ends open nobody waits for the other
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
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

// A supervising process that is ending breaks connections off. It is waited for.
func TestProcessThatEndsWhileItIsAskedIsNotFound(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", state+".sock")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		conn, err := l.Accept()
		_ = l.Close()
		if err == nil {
			_ = conn.Close()
		}
	}()
	if id, err := supervise.Find(t.Context(), state); !errors.Is(err, fault.NotFound) {
		t.Errorf("%+v, %v", id, err)
	}
}

// A supervising process of an older agent ends the connection of an order that it does not know.
func TestOlderSupervisingProcessRunsNoCommands(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", state+".sock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	running := frame.Running{TaskID: "a/t/1", PID: int64(os.Getpid()), StartedAt: time.Now().UnixNano()}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = conn.Write(frame.Wrap(frame.KindRunning, running.Encode()))
				_, _ = conn.Read(make([]byte, frame.HeaderSize))
				_ = conn.Close()
			}()
		}
	}()
	id, err := supervise.Find(t.Context(), state)
	if err != nil {
		t.Fatal(err)
	}
	p, err := supervise.Attach(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Detach()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	fd := int(null.Fd())
	if _, err := p.Command(t.Context(), []string{"true"}, false, [3]int{fd, fd, fd}); !errors.Is(err, fault.Unimplemented) || !strings.Contains(err.Error(), "restart the task") {
		t.Errorf("error %v", err)
	}
}
