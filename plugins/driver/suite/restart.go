package suite

import (
	"encoding/json"
	"errors"
	"strconv"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// restart stands for a new agent: a new instance that gets the handle as it was stored.
func (b *bench) restart(t *testing.T, h *driver.Handle) (driver.Driver, error) {
	t.Helper()
	stored, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var loaded driver.Handle
	if err := json.Unmarshal(stored, &loaded); err != nil {
		t.Fatal(err)
	}
	d := b.h.New(t)
	return d, d.Recover(Context(t), &loaded)
}

func recoverRunning(t *testing.T, b *bench) {
	task, h := b.start(t, b.h.Sleep)
	before, err := b.d.Inspect(task.ID)
	if err != nil {
		t.Fatal(err)
	}
	d, err := b.restart(t, h)
	if err != nil {
		t.Fatal(err)
	}
	after, err := d.Inspect(task.ID)
	if err != nil || after.State != driver.StateRunning || !after.StartedAt.Equal(before.StartedAt) {
		t.Fatalf("recovered %+v %v, was %+v", after, err, before)
	}
	if err := d.Stop(Context(t), task.ID, "SIGTERM", limit); err != nil {
		t.Fatal(err)
	}
	if x, err := d.Wait(Context(t), task.ID); err != nil || x.Err != "" {
		t.Errorf("exit %+v %v", x, err)
	}
	if err := d.Destroy(Context(t), task.ID); err != nil {
		t.Error(err)
	}
}

func recoverExited(t *testing.T, b *bench) {
	task, h := b.start(t, b.h.Exit7)
	b.wait(t, task.ID)
	d, err := b.restart(t, h)
	if err != nil {
		t.Fatal(err)
	}
	if x, err := d.Wait(Context(t), task.ID); err != nil || x.Code != 7 {
		t.Errorf("exit %+v %v", x, err)
	}
}

func recoverDestroyed(t *testing.T, b *bench) {
	task, h := b.start(t, b.h.Sleep)
	if err := b.d.Destroy(Context(t), task.ID); err != nil {
		t.Fatal(err)
	}
	d, err := b.restart(t, h)
	mustNotFind(t, "recover", err)
	_, err = d.Inspect(task.ID)
	mustNotFind(t, "inspect", err)
}

func recoverForeign(t *testing.T, b *bench) {
	for _, h := range []driver.Handle{
		{},
		{Driver: "other", TaskID: "x"},
		{Driver: b.d.Name(), TaskID: "x", Version: 1},
		{Driver: b.d.Name(), TaskID: "x", Version: 1, State: json.RawMessage(`{"PID":"one"}`)},
	} {
		if err := b.d.Recover(Context(t), &h); !errors.Is(err, fault.NotFound) {
			t.Errorf("recover %+v: %v, want not found", h, err)
		}
	}
}

func wholeTree(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Family)
	var child int
	Eventually(t, "the task prints the pid of its child", func() bool {
		text, whole := line(LogText(task, "stdout"))
		child, _ = strconv.Atoi(text)
		return whole && child > 1
	})
	if err := syscall.Kill(child, 0); err != nil {
		t.Fatalf("child: %v", err)
	}
	if err := b.d.Stop(Context(t), task.ID, "SIGKILL", limit); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(child, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("child after stop: %v, want no such process", err)
	}
}
