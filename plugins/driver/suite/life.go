package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/fileowner"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/idmap"
)

func fingerprint(t *testing.T, b *bench) {
	ch, err := b.d.Fingerprint(Context(t))
	if err != nil {
		t.Fatal(err)
	}
	if f := <-ch; f.Health != driver.Healthy || f.Attributes["driver."+b.d.Name()] != "true" {
		t.Errorf("first fingerprint %+v", f)
	}
}

func fingerprintEnds(t *testing.T, b *bench) {
	ctx, cancel := context.WithCancel(Context(t))
	ch, err := b.d.Fingerprint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for range ch {
	}
}

func validate(t *testing.T, b *bench) {
	err := b.d.ValidateConfig(b.h.Bad)
	if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), b.h.BadKey) {
		t.Errorf("validate: %v, want invalid naming %s", err, b.h.BadKey)
	}
	if _, err := b.d.Start(Context(t), NewTask(t, b.h.Bad)); !errors.Is(err, fault.Invalid) {
		t.Errorf("start: %v, want invalid", err)
	}
	if b.h.Sleep != nil {
		if err := b.d.ValidateConfig(b.h.Sleep); err != nil {
			t.Error(err)
		}
	}
}

func exitCode(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Exit7)
	for range 2 {
		if x := b.wait(t, task.ID); x.Code != 7 || x.Signal != 0 || x.Successful() {
			t.Errorf("exit %+v", x)
		}
	}
}

func exitBySignal(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Killed)
	if x := b.wait(t, task.ID); x.Signal != int(syscall.SIGKILL) || x.Code != 137 || x.Successful() {
		t.Errorf("exit %+v", x)
	}
}

func startFailure(t *testing.T, b *bench) {
	task := NewTask(t, b.h.Missing)
	_, err := b.d.Start(Context(t), task)
	if err == nil || driver.Recoverable(err) {
		t.Fatalf("start: %v, want an error not worth a retry", err)
	}
	_, err = b.d.Inspect(task.ID)
	mustNotFind(t, "inspect", err)
}

func secondStart(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Sleep)
	if _, err := b.d.Start(Context(t), task); !errors.Is(err, fault.Conflict) {
		t.Errorf("second start: %v, want conflict", err)
	}
	if st, err := b.d.Inspect(task.ID); err != nil || st.State != driver.StateRunning {
		t.Errorf("first task: %+v %v", st, err)
	}
}

func waitEnds(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Sleep)
	ctx, cancel := context.WithCancel(Context(t))
	cancel()
	if _, err := b.d.Wait(ctx, task.ID); !errors.Is(err, context.Canceled) {
		t.Errorf("wait: %v, want canceled", err)
	}
	if st, _ := b.d.Inspect(task.ID); st.State != driver.StateRunning {
		t.Error("the task ended with the wait")
	}
}

func stopBySignal(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Sleep)
	if err := b.d.Stop(Context(t), task.ID, "SIGTERM", limit); err != nil {
		t.Fatal(err)
	}
	if st, _ := b.d.Inspect(task.ID); st.State != driver.StateExited || st.Exit == nil || st.FinishedAt.IsZero() {
		t.Errorf("after stop: %+v", st)
	}
}

func stopTwice(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Sleep)
	for range 2 {
		if err := b.d.Stop(Context(t), task.ID, "", limit); err != nil {
			t.Fatal(err)
		}
	}
}

func stopBadSignal(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Sleep)
	if err := b.d.Stop(Context(t), task.ID, "SIGNONSENSE", limit); err != nil {
		t.Fatal(err)
	}
	if x := b.wait(t, task.ID); x.Signal != int(syscall.SIGKILL) {
		t.Errorf("exit %+v, want by SIGKILL", x)
	}
}

func stopEscalates(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Stubborn)
	awaitReady(t, b, task)
	if err := b.d.Stop(Context(t), task.ID, "SIGTERM", 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if x := b.wait(t, task.ID); x.Signal != int(syscall.SIGKILL) {
		t.Errorf("exit %+v, want by SIGKILL", x)
	}
}

func stopEnds(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Stubborn)
	awaitReady(t, b, task)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := b.d.Stop(ctx, task.ID, "SIGTERM", limit); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stop: %v, want deadline exceeded", err)
	}
	if st, _ := b.d.Inspect(task.ID); st.State != driver.StateRunning {
		t.Error("killed although the stop was given up")
	}
}

func awaitReady(t *testing.T, b *bench, task *driver.Task) {
	t.Helper()
	if b.h.Logs {
		Eventually(t, "the task prints ready", func() bool { return strings.Contains(LogText(task, "stdout"), "ready") })
	}
}

func destroyKills(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Sleep)
	if err := b.d.Destroy(Context(t), task.ID); err != nil {
		t.Fatal(err)
	}
	_, err := b.d.Inspect(task.ID)
	mustNotFind(t, "inspect", err)
	mustNotFind(t, "destroy", b.d.Destroy(Context(t), task.ID))
	if _, err := b.d.Start(Context(t), task); err != nil {
		t.Errorf("start after destroy: %v", err)
	}
	_ = b.d.Destroy(Context(t), task.ID)
}

func unknown(t *testing.T, b *bench) {
	ctx := Context(t)
	_, err := b.d.Wait(ctx, "nobody")
	mustNotFind(t, "wait", err)
	mustNotFind(t, "stop", b.d.Stop(ctx, "nobody", "SIGINT", time.Second))
	mustNotFind(t, "destroy", b.d.Destroy(ctx, "nobody"))
	mustNotFind(t, "signal", b.d.Signal(ctx, "nobody", "SIGHUP"))
	_, err = b.d.Inspect("nobody")
	mustNotFind(t, "inspect", err)
	_, err = b.d.Stats(ctx, "nobody")
	mustNotFind(t, "stats", err)
}

func inspect(t *testing.T, b *bench) {
	task, h := b.start(t, b.h.Sleep)
	st, err := b.d.Inspect(task.ID)
	if err != nil {
		t.Fatal(err)
	}
	if st.ID != task.ID || st.State != driver.StateRunning || st.Exit != nil || !st.FinishedAt.IsZero() {
		t.Errorf("status %+v", st)
	}
	if since := time.Since(st.StartedAt); since < 0 || since > limit {
		t.Errorf("started at %v", st.StartedAt)
	}
	if h.Driver != b.d.Name() || h.TaskID != task.ID || h.StartedAt.IsZero() {
		t.Errorf("handle %+v", h)
	}
}

func stats(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Sleep)
	u, err := b.d.Stats(Context(t), task.ID)
	if err != nil || u.ResourceUsage == nil || u.ResourceUsage.MemoryStats == nil || u.ResourceUsage.CpuStats == nil || u.Timestamp == 0 {
		t.Errorf("stats %+v %v", u, err)
	}
}

func signal(t *testing.T, b *bench) {
	if !b.d.Capabilities().Signals {
		t.Skip("the driver has no signals")
	}
	task, _ := b.start(t, b.h.Sleep)
	if err := b.d.Signal(Context(t), task.ID, "SIGWHAT"); !errors.Is(err, fault.Invalid) {
		t.Errorf("signal: %v, want invalid", err)
	}
	if err := b.d.Signal(Context(t), task.ID, "SIGTERM"); err != nil {
		t.Fatal(err)
	}
	if x := b.wait(t, task.ID); x.Signal != int(syscall.SIGTERM) {
		t.Errorf("exit %+v, want by SIGTERM", x)
	}
}

func output(t *testing.T, b *bench) {
	task, _ := b.start(t, b.h.Print)
	if x := b.wait(t, task.ID); !x.Successful() {
		t.Fatalf("exit %+v", x)
	}
	if out, err := LogText(task, "stdout"), LogText(task, "stderr"); out != "out\n" || err != "err\n" {
		t.Errorf("stdout %q, stderr %q", out, err)
	}
}

// flood waits until the task has printed more than its log files hold: they stay within their bounds, and the task still ends.
func flood(t *testing.T, b *bench) {
	task := NewTask(t, b.h.Flood)
	b.startTask(t, task)
	Eventually(t, "the first log files are removed", func() bool {
		left, err := filepath.Glob(filepath.Join(task.Logs.Dir, task.Name+".stdout.*"))
		return err == nil && len(left) > 0 && !slices.Contains(left, filepath.Join(task.Logs.Dir, task.Name+".stdout.0"))
	})
	size := int64(0)
	files, err := os.ReadDir(task.Logs.Dir)
	for _, f := range files {
		if info, err := f.Info(); err == nil { // else it has been removed
			size += info.Size()
		}
	}
	if most := int64(task.Logs.MaxFiles+1) * int64(task.Logs.MaxFileSizeMB) << 20; err != nil || size > most {
		t.Errorf("the log has %d bytes in %d files, want at most %d: %v", size, len(files), most, err)
	}
	if err := b.d.Stop(Context(t), task.ID, "SIGKILL", limit); err != nil {
		t.Error(err)
	}
	if x := b.wait(t, task.ID); x.Signal != int(syscall.SIGKILL) && x.Code != 137 {
		t.Errorf("exit %+v", x)
	}
}

func mount(t *testing.T, b *bench) {
	readMount(t, b, NewTask(t, b.h.ReadMount), 0o644, "")
	if !b.d.Capabilities().Owners || os.Getuid() != 0 {
		return
	}
	task := NewTask(t, b.h.ReadMount)
	task.ID, task.User = task.ID+"-owner", "65534"
	for _, dir := range []string{filepath.Dir(task.Dir), filepath.Dir(filepath.Dir(task.Dir))} {
		if err := os.Chmod(dir, 0o755); err != nil { // the user enters the directory of the task
			t.Fatal(err)
		}
	}
	nobody := fileowner.Owner{UID: 65534, GID: 65534}
	ns, err := idmap.Swap(fileowner.Owner{}, nobody)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	readMount(t, b, task, 0o600, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.Fd()))
}

// readMount runs a task that reads a file of this mode, whose owner the user namespace maps.
func readMount(t *testing.T, b *bench, task *driver.Task, mode os.FileMode, userNS string) {
	t.Helper()
	source := t.TempDir()
	if err := os.WriteFile(filepath.Join(source, "hello"), []byte("from the volume\n"), mode); err != nil {
		t.Fatal(err)
	}
	task.Mounts = []driver.Mount{{Source: source, Destination: "data", UserNS: userNS}}
	b.startTask(t, task)
	if x := b.wait(t, task.ID); !x.Successful() {
		t.Errorf("exit %+v, stderr %q", x, LogText(task, "stderr"))
	}
	if out := LogText(task, "stdout"); out != "from the volume\n" {
		t.Errorf("the task read %q", out)
	}
	if _, err := os.Stat(filepath.Join(task.Dir, "data", "hello")); err == nil {
		t.Error("the mount is seen on the host")
	}
}
