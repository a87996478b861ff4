package mock_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

func TestExec(t *testing.T) {
	d, _, err := start(t, map[string]any{"run_for": "1h"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, stdin, stdout string
		code                int
		err                 error
	}{
		{args: "echo a b", stdout: "a b\n"},
		{args: "cat", stdin: "x\ny", stdout: "x\ny"},
		{args: "exit 7", code: 7},
		{args: "exit 256", err: fault.Invalid},
		{args: "exit", err: fault.Invalid},
		{args: "missing", err: fault.Invalid},
		{args: "", err: fault.Invalid},
	} {
		var out strings.Builder
		code, err := d.Exec(t.Context(), "a/b/0", &driver.Command{
			Args: strings.Fields(c.args), Stdin: strings.NewReader(c.stdin), Stdout: &out,
		})
		if code != c.code || !errors.Is(err, c.err) || out.String() != c.stdout {
			t.Errorf("%q: code %d, output %q, error %v", c.args, code, out.String(), err)
		}
	}
	if _, err := d.Exec(t.Context(), "other", &driver.Command{Args: []string{"echo"}}); !errors.Is(err, fault.NotFound) {
		t.Errorf("unknown task: %v", err)
	}
}

func TestExecEndsWithContextAndTask(t *testing.T) {
	for _, program := range []string{"cat", "sleep"} {
		synctest.Test(t, func(t *testing.T) {
			d, _, err := start(t, map[string]any{"run_for": "10s"})
			if err != nil {
				t.Fatal(err)
			}
			in, keyboard := io.Pipe()
			defer func() { _ = keyboard.Close() }()
			c := &driver.Command{Args: []string{program}, Stdin: in}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := d.Exec(ctx, "a/b/0", c); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: context ended: %v", program, err)
			}
			if code, err := d.Exec(t.Context(), "a/b/0", c); code != 137 || err != nil {
				t.Errorf("%s: task ended: code %d, error %v", program, code, err)
			}
			if _, err := d.Exec(t.Context(), "a/b/0", c); !errors.Is(err, fault.Conflict) {
				t.Errorf("%s: ended task: %v", program, err)
			}
		})
	}
}
