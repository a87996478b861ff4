package docker_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

func TestCommandHasTheUserOfTheTask(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir()+"/s", nil)
	task := newTask(t, taskConfig(map[string]any{"work_dir": "/tmp"}, "sleep"))
	task.User = "web"
	start(t, d, task)
	var out bytes.Buffer
	code, err := d.Exec(suite.Context(t), task.ID, &driver.Command{Args: []string{"/task", "ids"}, Stdout: &out})
	if code != 0 || err != nil || !strings.HasPrefix(out.String(), "1000 1000 [1000] /tmp ") {
		t.Errorf("code %d, error %v, output %q", code, err, out.String())
	}
}

// The engine reports a program that it cannot execute in the output.
func TestOutputIsNotTakenForARefusal(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir()+"/s", nil)
	task := newTask(t, taskConfig(nil, "sleep"))
	start(t, d, task)
	const text = "OCI runtime exec failed: so says the command"
	var out, stderr bytes.Buffer
	for _, c := range []struct {
		args  []string
		stdin string
		code  int
		err   error
	}{
		{args: []string{"/task", "copy"}, stdin: text},
		{args: []string{"/task", "exit", "127"}, code: 127},
		{args: []string{"/task", "exit", "126"}, code: 126},
		{args: []string{"/etc/passwd"}, err: fault.Invalid}, // it is not executable
	} {
		out.Reset()
		code, err := d.Exec(suite.Context(t), task.ID, &driver.Command{Args: c.args, Stdin: strings.NewReader(c.stdin), Stdout: &out, Stderr: &stderr})
		if code != c.code || !errors.Is(err, c.err) || out.String() != c.stdin || stderr.Len() > 0 {
			t.Errorf("%q: code %d, error %v, output %q and %q", c.args, code, err, out.String(), stderr.String())
		}
		if c.err != nil && (err == nil || !strings.Contains(err.Error(), c.args[0])) {
			t.Errorf("the error %v does not name the program", err)
		}
	}
}

// TestCommandWithoutEngine has an engine of its own, which it kills.
func TestCommandWithoutEngine(t *testing.T) {
	t.Parallel()
	e := engineOfOwn(t)
	d := driverOf(t, e, t.TempDir()+"/s", nil)
	task := newTask(t, taskConfig(nil, "sleep"))
	start(t, d, task)
	var out suite.Text
	done := make(chan error, 1)
	go func() {
		_, err := d.Exec(suite.Context(t), task.ID, &driver.Command{Args: []string{"/task", "leave"}, Stdout: &out})
		if err == nil {
			_, err = d.Exec(suite.Context(t), task.ID, &driver.Command{Args: []string{"/task", "family"}, Stdout: &out})
		}
		done <- err
	}()
	suite.Eventually(t, "the command runs", func() bool { return strings.Count(out.String(), "\n") == 2 })
	if err := e.Kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if !errors.Is(err, fault.Unavailable) {
			t.Errorf("the engine ended: %v, want unavailable", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it does not end with the engine")
	}
	if _, err := d.Exec(suite.Context(t), task.ID, &driver.Command{Args: []string{"/task", "print"}}); !errors.Is(err, fault.Unavailable) {
		t.Errorf("without the engine: %v, want unavailable", err)
	}
	if err := e.Run(); err != nil {
		t.Fatal(err, e.Output())
	}
	if code, err := d.Exec(suite.Context(t), task.ID, &driver.Command{Args: []string{"/task", "exit", "7"}}); code != 7 || err != nil {
		t.Errorf("with the engine back: code %d, error %v", code, err)
	}
}
