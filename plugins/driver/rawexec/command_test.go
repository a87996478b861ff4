package rawexec_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

func startTask(t *testing.T, d *rawexec.Driver, task *driver.Task) {
	t.Helper()
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
}

// outputOf runs a script inside a task.
func outputOf(t *testing.T, d *rawexec.Driver, id string, tty bool, script string) string {
	t.Helper()
	var out bytes.Buffer
	if code, err := d.Exec(suite.Context(t), id, &driver.Command{Args: command(script), TTY: tty, Stdout: &out}); code != 0 || err != nil {
		t.Fatalf("%s: code %d, error %v, output %q", script, code, err, out.String())
	}
	return strings.ReplaceAll(out.String(), "\r\n", "\n")
}

func TestCommandOfAnotherUserSeesTheMounts(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir())
	const rights = `id -u; id -g; id -G; grep -E 'NoNewPrivs|CapEff' /proc/self/status; readlink /proc/self/ns/mnt; cat /nomad-test-command/hello; echo end`
	task := suite.NewTask(t, sh(rights+`; sleep 1000`))
	task.User = "nobody"
	task.Mounts = []driver.Mount{{Source: volume(t, "hello"), Destination: "/nomad-test-command"}}
	for dir := task.Dir; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	startTask(t, d, task)
	suite.Eventually(t, "the task prints", func() bool { return strings.HasSuffix(suite.LogText(task, "stdout"), "end\n") })
	if out, want := outputOf(t, d, task.ID, false, rights), suite.LogText(task, "stdout"); out != want || !strings.Contains(want, "\nhello\n") {
		t.Errorf("the command has\n%s\nthe task\n%s", out, want)
	}
	if out := outputOf(t, d, task.ID, true, `test -t 0 && test -t 1 && test -t 2 && stat -L -c %u /proc/self/fd/0; echo there >/dev/tty`); out != "65534\nthere\n" {
		t.Errorf("on a terminal: %q", out)
	}
	if left := mountTable(t); bytes.Contains(left, []byte("nomad-test-command")) {
		t.Error("the mount is seen on the host")
	}
}

func TestProgramOfACommandIsLookedUpInThePathOfTheTask(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir())
	task := suite.NewTask(t, map[string]any{"command": "/bin/sleep", "args": []any{"1000"}})
	bin := t.TempDir()
	for path, text := range map[string]string{bin + "/greet": "#!/bin/sh\necho hello\n", task.Dir + "/local-greet": "#!/bin/sh\necho local\n"} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(bin+"/closed", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	task.Env["PATH"] = "relative::" + bin
	startTask(t, d, task)
	for _, c := range []struct {
		program, want string
		err           error
	}{
		{program: "greet", want: "hello\n"},
		{program: "./local-greet", want: "local\n"},
		{program: bin + "/greet", want: "hello\n"},
		{program: "local-greet", err: fault.Invalid},
		{program: "closed", err: fault.Invalid},
		{program: bin, err: fault.Invalid},
		{program: "greet\x00", err: fault.Invalid},
	} {
		var out bytes.Buffer
		if _, err := d.Exec(suite.Context(t), task.ID, &driver.Command{Args: []string{c.program}, Stdout: &out}); out.String() != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q: output %q, error %v", c.program, out.String(), err)
		}
	}
}

// inBackground runs a command whose child prints its pid.
func inBackground(t *testing.T, d *rawexec.Driver, id string) (child int, done chan error) {
	t.Helper()
	in, out := io.Pipe()
	done = make(chan error, 1)
	ctx := suite.Context(t)
	go func() {
		code, err := d.Exec(ctx, id, &driver.Command{Args: command(`setsid sh -c 'sleep 1000 & echo $!; wait' & wait`), Stdout: out})
		if err == nil && code != 137 {
			err = errors.New("code " + strconv.Itoa(code))
		}
		done <- err
		out.Close()
	}()
	var b [16]byte
	n, err := in.Read(b[:])
	if err != nil {
		t.Fatal(err)
	}
	if child, err = strconv.Atoi(strings.TrimSpace(string(b[:n]))); err != nil {
		t.Fatal(err)
	}
	return child, done
}

func TestCommandEndsWithTheSupervisingProcess(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir())
	task := suite.NewTask(t, sh("sleep 1000"))
	startTask(t, d, task)
	child, done := inBackground(t, d, task.ID)
	if err := syscall.Kill(pidOf(t, d, task.ID, "supervisor_pid"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	suite.Eventually(t, "the child of the command is gone", func() bool { return hasEnded(child) })
}

func TestCommandEndsWithItsAgent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	newDriver(t, dir)
	task := suite.NewTask(t, sh("sleep 1000"))
	file := filepath.Join(task.Dir, "child")
	h := startInAgentThatRuns(t, dir, task, command(`setsid sh -c 'sleep 1000 & echo $! >child.new; mv child.new child; wait' & wait`), file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the child of the command is gone", func() bool { return hasEnded(child) })
	d := newDriver(t, dir)
	if err := d.Recover(suite.Context(t), h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
	if out := outputOf(t, d, task.ID, false, "echo again"); out != "again\n" {
		t.Errorf("output %q", out)
	}
}

// The file system of a program may not respond: neither the agent nor the supervising process waits for it.
func TestCommandThatHangsHoldsUpNothing(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir())
	task := suite.NewTask(t, map[string]any{"command": "/bin/sleep", "args": []any{"1000"}})
	startTask(t, d, task)
	hangAndEnd(t, d, task.ID, func(cancel func()) { cancel() })
	if out := outputOf(t, d, task.ID, false, "echo next"); out != "next\n" {
		t.Errorf("the next command: %q", out)
	}
	hangAndEnd(t, d, task.ID, func(func()) {
		if err := d.Stop(suite.Context(t), task.ID, "SIGTERM", 30*time.Second); err != nil {
			t.Error(err)
		}
	})
	if x, err := d.Wait(suite.Context(t), task.ID); err != nil || x.Signal != int(syscall.SIGTERM) {
		t.Errorf("exit %+v %v, want by SIGTERM", x, err)
	}
}

// hangAndEnd runs a command that hangs and ends it.
func hangAndEnd(t *testing.T, d *rawexec.Driver, id string, end func(cancel func())) {
	t.Helper()
	at, asked, answer := fuseThat(t, false)
	defer answer()
	ctx, cancel := context.WithCancel(suite.Context(t))
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := d.Exec(ctx, id, &driver.Command{Args: []string{at + "/x"}})
		done <- err
	}()
	select {
	case <-asked:
	case err := <-done:
		t.Fatalf("it did not hang: %v", err)
	}
	end(cancel)
	if err := <-done; !errors.Is(err, context.Canceled) && !errors.Is(err, fault.Conflict) {
		t.Errorf("error %v", err)
	}
}

func TestOutputOnATerminalIsWhole(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir())
	task := suite.NewTask(t, sh("sleep 1000"))
	startTask(t, d, task)
	var want strings.Builder
	for i := range 20000 {
		want.WriteString(strconv.Itoa(i+1) + "\n")
	}
	for range 3 {
		if out := outputOf(t, d, task.ID, true, "seq 20000"); out != want.String() {
			t.Errorf("%d bytes came of %d, or others", len(out), want.Len())
		}
	}
}

func TestInputEndsOnATerminal(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir())
	task := suite.NewTask(t, sh("sleep 1000"))
	startTask(t, d, task)
	for _, input := range []string{"", "a line\n", "no end of line"} {
		var out bytes.Buffer
		c := &driver.Command{Args: command("stty -echo; cat"), TTY: true, Stdin: strings.NewReader(input), Stdout: &out}
		if code, err := d.Exec(suite.Context(t), task.ID, c); code != 0 || err != nil || !strings.Contains(out.String(), strings.TrimSpace(input)) {
			t.Errorf("%q: code %d, error %v, output %q", input, code, err, out.String())
		}
	}
}

// What a command writes to a volume ends with the lease of its task, also when its program hangs.
func TestCommandsEndWithTheLease(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir())
	source, target := published(t)
	hangs, asked, answer := fuseThat(t, false)
	defer answer()
	task := suite.NewTask(t, sh("sleep 1000"))
	task.Mounts = []driver.Mount{{Source: target, Destination: "v"}}
	task.Lease = &driver.Lease{Term: api.LeaseTerm{Term: 4 * time.Second, WriteBack: 2 * time.Second}, From: bootTime(t), Unmount: []string{target}}
	startTask(t, d, task)
	done := make(chan error, 2)
	for _, args := range [][]string{command(writing), {hangs + "/x"}} {
		go func() {
			code, err := d.Exec(suite.Context(t), task.ID, &driver.Command{Args: args})
			if code != 137 && !errors.Is(err, fault.Conflict) {
				t.Errorf("%q: code %d, error %v", args, code, err)
			}
			done <- err
		}()
	}
	<-asked
	suite.Eventually(t, "the command writes", func() bool { st, err := os.Stat(source + "/journal"); return err == nil && st.Size() > 0 })
	suite.Eventually(t, "the volume is unmounted", func() bool { return !isMounted(t, target) })
	before, err := os.ReadFile(source + "/journal")
	if err != nil {
		t.Fatal(err)
	}
	if late := bootTime(t) - task.Lease.From - int64(task.Lease.Term.Cut()); late > int64(time.Second) {
		t.Errorf("unmounted %v after the cut", time.Duration(late))
	}
	<-done
	<-done
	if after, err := os.ReadFile(source + "/journal"); err != nil || !bytes.Equal(before, after) {
		t.Errorf("written after the end of the lease: %d bytes, then %d, %v", len(before), len(after), err)
	}
}
