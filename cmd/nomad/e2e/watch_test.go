package e2e

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// terminal is a program on a terminal of 80x24.
type terminal struct {
	t   *testing.T
	a   *kit.Agent
	pty *os.File
	mu  sync.Mutex
	out bytes.Buffer
}

func onTerminal(t *testing.T, a *kit.Agent, args ...string) *terminal {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{t: t, a: a, pty: os.NewFile(uintptr(fd), "terminal")}
	t.Cleanup(func() { _ = x.pty.Close() })
	if err := errors.Join(unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0), unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: 80, Row: 24})); err != nil {
		t.Fatal(err)
	}
	peer, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if e != 0 {
		t.Fatal(e)
	}
	user := os.NewFile(peer, "user")
	defer user.Close()
	cmd := a.Command(args...)
	cmd.Env = append(cmd.Env, "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = user, user, user
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	go func() {
		for buf := make([]byte, 4096); ; {
			n, err := x.pty.Read(buf)
			x.mu.Lock()
			x.out.Write(buf[:n])
			x.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the program ended with %v", err)
			}
		case <-time.After(30 * time.Second):
			_ = cmd.Process.Kill()
			t.Error("the program did not end")
		}
	})
	return x
}

// keys presses keys and waits until a text was drawn after that.
func (x *terminal) keys(keys, text string) {
	x.t.Helper()
	x.mu.Lock()
	x.out.Reset()
	x.mu.Unlock()
	if _, err := x.pty.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
	x.a.Until(30*time.Second, "the screen to show "+text, func() error {
		x.mu.Lock()
		defer x.mu.Unlock()
		if !strings.Contains(x.out.String(), text) {
			return errors.New(x.out.String())
		}
		return nil
	})
}

// TestWatchOnATerminal: the screen of the real program shows a job, opens it, shows its log, runs a shell in it and stops it.
func TestWatchOnATerminal(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	a.Register(kit.ShellJob("seen", "echo words of the task; sleep 1000"))
	a.Running("seen", 1)
	x := onTerminal(t, a, "watch")
	x.keys("", "seen")
	x.keys("\r", "newest")
	x.keys("l", "words of the task")
	x.keys("\x1b", "newest")
	x.keys("s", "~. after a line feed")
	x.keys("echo $((40+2))$NOMAD_JOB_NAME; exit\r", "shell has ended")
	if !strings.Contains(x.out.String(), "42seen") {
		t.Errorf("the shell printed %q", x.out.String())
	}
	x.keys("x", "[y/N]")
	x.keys("y", "is stopped")
	x.keys("q", "")
}

// TestWatchWithAReadOnlyToken: a user who may only read sees jobs and their allocations, and why each other list, log and
// change is refused; the screen keeps running.
func TestWatchWithAReadOnlyToken(t *testing.T) {
	t.Parallel()
	a := kit.PrepareGuarded(t)
	a.Launch()
	a.Register(kit.ShellJob("seen", "sleep 1000"))
	a.Running("seen", 1)
	token := a.ClientToken("reader", `namespace "default" { capabilities = ["list-jobs", "read-job"] }`)
	x := onTerminal(t, a, "watch", "-token", token.SecretID)
	x.keys("", "seen")
	x.keys("x", "[y/N]")
	x.keys("y", "Permission denied")
	x.keys("4", "Permission denied") // nodes
	x.keys("2", "running")           // allocations
	x.keys("l", "Permission denied")
	x.keys("\x1b", "running")
	x.keys("s", "Permission denied")
	x.keys("1", "seen")
	x.keys("q", "")
	if n := a.Running("seen", 1); n.DesiredStatus != "run" {
		t.Errorf("the allocation is to %s", n.DesiredStatus)
	}
	// Without any right the reason is on the screen, and the keys work.
	x = onTerminal(t, a, "watch", "-token", a.ClientToken("nothing", `node { policy = "read" }`).SecretID)
	x.keys("", "Permission denied")
	x.keys("4", "ready")
	x.keys("q", "")
}
