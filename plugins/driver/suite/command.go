package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

const killedCode = 128 + int(syscall.SIGKILL)

// execer returns the driver as one that runs commands.
func execer(t *testing.T, d driver.Driver) driver.Execer {
	t.Helper()
	e, ok := d.(driver.Execer)
	if !ok || !d.Capabilities().Exec {
		t.Fatalf("driver %s runs no commands; its capabilities are %+v", d.Name(), d.Capabilities())
	}
	return e
}

// Text collects output that is read while it is written.
type Text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *Text) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(b)
}

func (w *Text) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

func mustRun(t *testing.T, d driver.Driver, id string, c *driver.Command, want int) {
	t.Helper()
	if code, err := execer(t, d).Exec(Context(t), id, c); code != want || err != nil {
		t.Errorf("%q: code %d, error %v, want code %d", c.Args, code, err, want)
	}
}

func commandOutput(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Sleep)
	var out, err Text
	mustRun(t, b.d, task.ID, &driver.Command{Args: b.h.Commands.Print, Stdout: &out, Stderr: &err}, 0)
	if out.String() != "out\n" || err.String() != "err\n" {
		t.Errorf("stdout %q, stderr %q", out.String(), err.String())
	}
	mustRun(t, b.d, task.ID, &driver.Command{Args: b.h.Commands.Print}, 0)
	if b.h.Logs && LogText(task, "stdout")+LogText(task, "stderr") != "" {
		t.Errorf("output of the command is in the log of the task: %q %q", LogText(task, "stdout"), LogText(task, "stderr"))
	}
}

func commandExit(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Sleep)
	in, keyboard := io.Pipe() // on which nothing is typed
	defer keyboard.Close()
	mustRun(t, b.d, task.ID, &driver.Command{Args: b.h.Commands.Exit7, Stdin: in}, 7)
	if b.h.Commands.Size != nil {
		mustRun(t, b.d, task.ID, &driver.Command{Args: b.h.Commands.Exit7, TTY: true, Stdin: in}, 7)
	}
	if b.h.Commands.Killed != nil {
		mustRun(t, b.d, task.ID, &driver.Command{Args: b.h.Commands.Killed}, killedCode)
	}
	if st, err := b.d.Inspect(task.ID); err != nil || st.State != driver.StateRunning {
		t.Errorf("the task after its commands: %+v %v", st, err)
	}
}

func commandInput(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Sleep)
	for _, input := range []io.Reader{strings.NewReader("x\ny"), strings.NewReader(""), nil} {
		want := ""
		if r, ok := input.(*strings.Reader); ok && r.Len() > 0 {
			want = "x\ny"
		}
		var out Text
		mustRun(t, b.d, task.ID, &driver.Command{Args: b.h.Commands.Copy, Stdin: input, Stdout: &out}, 0)
		if out.String() != want {
			t.Errorf("output %q, want %q", out.String(), want)
		}
	}
}

func commandManyBytes(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Sleep)
	input := make([]byte, 5<<20+1)
	for i := range input {
		input[i] = byte(i >> 3 * 7)
	}
	var out Text
	mustRun(t, b.d, task.ID, &driver.Command{Args: b.h.Commands.Copy, Stdin: bytes.NewReader(input), Stdout: &out}, 0)
	if got := out.String(); got != string(input) {
		t.Errorf("%d bytes came back of %d, or others", len(got), len(input))
	}
}

var errWriter = errors.New("the writer fails")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errWriter }

func commandWriterFails(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Sleep)
	in, keyboard := io.Pipe()
	defer keyboard.Close()
	go func() { _, _ = keyboard.Write([]byte("x\n")) }()
	if _, err := execer(t, b.d).Exec(Context(t), task.ID, &driver.Command{Args: b.h.Commands.Copy, Stdin: in, Stdout: failing{}}); !errors.Is(err, errWriter) {
		t.Errorf("error %v, want that of the writer", err)
	}
}

func commandTerminal(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Sleep)
	var out Text
	in, keyboard := io.Pipe()
	sizes := make(chan driver.TerminalSize, 1)
	sizes <- driver.TerminalSize{Width: 90, Height: 30}
	done := make(chan error, 1)
	go func() {
		code, err := execer(t, b.d).Exec(Context(t), task.ID, &driver.Command{Args: b.h.Commands.Size, TTY: true, Stdin: in, Stdout: &out, Resize: sizes})
		if code != 0 {
			err = errors.Join(err, fmt.Errorf("code %d", code))
		}
		done <- err
	}()
	press := func() {
		if _, err := keyboard.Write([]byte("\n")); err != nil {
			t.Error(err)
		}
	}
	// Drivers may set the size after the start.
	Eventually(t, "the first size", func() bool { press(); return strings.Contains(out.String(), "30 90\r\n") })
	sizes <- driver.TerminalSize{Width: 132, Height: 50}
	Eventually(t, "the second size", func() bool { press(); return strings.Contains(out.String(), "50 132\r\n") })
	_ = keyboard.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func commandSelf(t *testing.T, b *bench) {
	task := NewTask(t, b.h.Commands.SelfTask)
	task.Env["OF_TASK"] = "a value"
	b.startTask(t, task)
	Eventually(t, "the task prints", func() bool { return strings.HasSuffix(LogText(task, "stdout"), "end\n") })
	var out Text
	mustRun(t, b.d, task.ID, &driver.Command{Args: b.h.Commands.Self, Stdout: &out}, 0)
	if want := LogText(task, "stdout"); out.String() != want || !strings.Contains(want, "OF_TASK=a value\n") {
		t.Errorf("the command has\n%s\nthe task\n%s", out.String(), want)
	}
}

func commandRefused(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Sleep)
	e, ctx := execer(t, b.d), Context(t)
	for _, args := range [][]string{b.h.Commands.Missing, {}, {""}} {
		if _, err := e.Exec(ctx, task.ID, &driver.Command{Args: args}); !errors.Is(err, fault.Invalid) {
			t.Errorf("%q: %v, want invalid", args, err)
		}
	}
	_, err := e.Exec(ctx, "nobody", &driver.Command{Args: b.h.Commands.Missing})
	mustNotFind(t, "command", err)
	if err := b.d.Stop(ctx, task.ID, "SIGKILL", limit); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Exec(ctx, task.ID, &driver.Command{Args: b.h.Commands.Missing}); !errors.Is(err, fault.Conflict) {
		t.Errorf("ended task: %v, want conflict", err)
	}
}

func commandEndsWithContext(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Sleep)
	in, keyboard := io.Pipe()
	defer keyboard.Close()
	ctx, cancel := context.WithCancel(Context(t))
	go func() { // when it reads, the command runs or starts
		_, _ = keyboard.Write([]byte("x"))
		cancel()
	}()
	c := &driver.Command{Args: b.h.Commands.Sleep, Stdin: in}
	if b.h.Commands.Copy != nil {
		c.Args = b.h.Commands.Copy
	}
	if _, err := execer(t, b.d).Exec(ctx, task.ID, c); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
	if _, err := execer(t, b.d).Exec(ctx, task.ID, c); !errors.Is(err, context.Canceled) {
		t.Errorf("context that has ended: %v, want canceled", err)
	}
	if st, err := b.d.Inspect(task.ID); err != nil || st.State != driver.StateRunning {
		t.Errorf("the task after it: %+v %v", st, err)
	}
}

func commandTree(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Sleep)
	ctx, cancel := context.WithCancel(Context(t))
	defer cancel()
	var out Text
	done := make(chan error, 1)
	go func() {
		_, err := execer(t, b.d).Exec(ctx, task.ID, &driver.Command{Args: b.h.Commands.Family, Stdout: &out})
		done <- err
	}()
	child := childOf(t, &out)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
	Eventually(t, "the child of the command is gone", func() bool { return errors.Is(syscall.Kill(child, 0), syscall.ESRCH) })
	if st, err := b.d.Inspect(task.ID); err != nil || st.State != driver.StateRunning {
		t.Errorf("the task after it: %+v %v", st, err)
	}
}

func childOf(t *testing.T, out *Text) (pid int) {
	t.Helper()
	Eventually(t, "the command prints the pid of its child", func() bool {
		first, whole := line(out.String())
		pid, _ = strconv.Atoi(strings.TrimSpace(first))
		return whole && pid > 1
	})
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("child: %v", err)
	}
	return pid
}

func commandEndsWithTask(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Sleep)
	var out Text
	c := &driver.Command{Args: b.h.Commands.Sleep, Stdout: &out}
	if b.h.Commands.Family != nil {
		c.Args = b.h.Commands.Family
	}
	type result struct {
		code int
		err  error
	}
	done := make(chan result, 1)
	go func() {
		code, err := execer(t, b.d).Exec(Context(t), task.ID, c)
		done <- result{code, err}
	}()
	child := 0
	if b.h.Commands.Family != nil {
		child = childOf(t, &out)
	}
	if err := b.d.Stop(Context(t), task.ID, "SIGKILL", limit); err != nil {
		t.Fatal(err)
	}
	// A command that starts only when the task has ended is refused.
	if r := <-done; (r.code != killedCode || r.err != nil) && (child != 0 || !errors.Is(r.err, fault.Conflict)) {
		t.Errorf("code %d, error %v", r.code, r.err)
	}
	if child != 0 {
		Eventually(t, "the child of the command is gone", func() bool { return errors.Is(syscall.Kill(child, 0), syscall.ESRCH) })
	}
}

func commandLeaves(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Sleep)
	for _, tty := range []bool{false, b.h.Commands.Size != nil} {
		var out Text
		mustRun(t, b.d, task.ID, &driver.Command{Args: b.h.Commands.Leave, TTY: tty, Stdout: &out}, 3)
		if strings.TrimSpace(out.String()) != "before" {
			t.Errorf("terminal %v: output %q", tty, out.String())
		}
	}
}

func commandsTogether(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Sleep)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			var out Text
			want := strings.Repeat(strconv.Itoa(i)+"\n", 1000)
			mustRun(t, b.d, task.ID, &driver.Command{Args: b.h.Commands.Copy, Stdin: strings.NewReader(want), Stdout: &out}, 0)
			if out.String() != want {
				t.Errorf("command %d has %d bytes of %d, or others", i, len(out.String()), len(want))
			}
		})
	}
	all.Wait()
}

func commandRecovered(t *testing.T, b *bench) {
	task, h := b.start(t, b.h.Sleep)
	d, err := b.restart(t, h)
	if err != nil {
		t.Fatal(err)
	}
	var out Text
	mustRun(t, d, task.ID, &driver.Command{Args: b.h.Commands.Copy, Stdin: strings.NewReader("again"), Stdout: &out}, 0)
	if out.String() != "again" {
		t.Errorf("output %q", out.String())
	}
}
