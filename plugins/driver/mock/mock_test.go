package mock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/mock"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

func TestContract(t *testing.T) {
	suite.Run(t, suite.Harness{
		New:      func(*testing.T) driver.Driver { return mock.New(hclog.NewNullLogger()) },
		Sleep:    map[string]any{"run_for": "1000s"},
		Stubborn: map[string]any{"run_for": "1000s", "kill_after": "500s", "stdout_string": "ready\n"},
		Exit7:    map[string]any{"exit_code": 7},
		Killed:   map[string]any{"exit_signal": 9},
		Print:    map[string]any{"run_for": "1ms", "stdout_string": "out\n", "stderr_string": "err\n"},
		Missing:  map[string]any{"start_error": "no such thing"},
		Commands: suite.Commands{
			Exit7: []string{"exit", "7"}, Copy: []string{"cat"}, Sleep: []string{"sleep"}, Missing: []string{"missing"},
		},
		Bad:    map[string]any{"run_form": "5s"},
		BadKey: "run_form",
		Logs:   true,
	})
}

func start(t *testing.T, config map[string]any) (*mock.Driver, *driver.Handle, error) {
	t.Helper()
	d := mock.New(hclog.NewNullLogger())
	h, err := d.Start(t.Context(), &driver.Task{ID: "a/b/0", Name: "b", Config: config})
	return d, h, err
}

func TestRunsForItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d, _, err := start(t, map[string]any{"run_for": "1h", "exit_code": 3})
		if err != nil {
			t.Fatal(err)
		}
		x, err := d.Wait(t.Context(), "a/b/0")
		if err != nil || x.Code != 3 || time.Since(began) != time.Hour {
			t.Errorf("exit %+v %v after %v", x, err, time.Since(began))
		}
	})
}

func TestStartErrors(t *testing.T) {
	for _, again := range []bool{true, false} {
		_, _, err := start(t, map[string]any{"start_error": "boom", "start_error_recoverable": again})
		if err == nil || driver.Recoverable(err) != again || !strings.Contains(err.Error(), "boom") {
			t.Errorf("recoverable %v: %v", again, err)
		}
	}
	if _, _, err := start(t, map[string]any{"run_for": "-5s"}); !errors.Is(err, fault.Invalid) {
		t.Errorf("negative time: %v", err)
	}
}

func TestStartBlockEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		d := mock.New(hclog.NewNullLogger())
		_, err := d.Start(ctx, &driver.Task{ID: "x", Config: map[string]any{"start_block_for": "1h"}})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestKillAfterDelaysTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _, err := start(t, map[string]any{"run_for": "1h", "kill_after": "2s"})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := d.Stop(t.Context(), "a/b/0", "", 5*time.Second); err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("stop: %v after %v", err, time.Since(began))
		}
	})
}

func TestRecoverKeepsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, h, err := start(t, map[string]any{"run_for": "10s", "exit_code": 4})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		again := mock.New(hclog.NewNullLogger())
		if err := again.Recover(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		x, err := again.Wait(t.Context(), "a/b/0")
		if err != nil || x.Code != 4 || time.Since(began) != 6*time.Second {
			t.Errorf("exit %+v %v after %v", x, err, time.Since(began))
		}
		if err := mock.New(hclog.NewNullLogger()).Recover(t.Context(), h); !errors.Is(err, fault.NotFound) {
			t.Errorf("recover of an ended task: %v", err)
		}
	})
}
