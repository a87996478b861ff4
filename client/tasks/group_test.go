package tasks_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/snappy"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/dirs"
	"github.com/open-nomad/open-nomad/client/store"
	"github.com/open-nomad/open-nomad/client/tasks"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

func lasting(d time.Duration, code int) map[string]any {
	return map[string]any{"run_for": d, "exit_code": code}
}

func hook(name, hook string, sidecar bool, config map[string]any) *api.Task {
	return &api.Task{Name: name, Lifecycle: &api.TaskLifecycle{Hook: hook, Sidecar: sidecar}, Config: config}
}

func TestBatchTaskRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "batch", &api.Task{Name: "t", Config: lasting(time.Second, 0)})
		if err := b.run(t.Context())(); err != nil {
			t.Fatal(err)
		}
		s := b.States()["t"]
		if s.State != api.TaskStateDead || s.Failed || s.FinishedAt.IsZero() {
			t.Errorf("state %+v", s)
		}
		if want := []string{"Received", "Task Setup", "Started", "Terminated"}; !slices.Equal(events(s), want) {
			t.Errorf("events %v", events(s))
		}
		if b.driver.lives() != 0 {
			t.Error("driver still knows the task")
		}
	})
}

func TestFailingTaskIsRestartedThenFailsWithItsSibling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", &api.Task{Name: "bad", Config: lasting(time.Second, 3)}, &api.Task{Name: "good"})
		began := time.Now()
		if err := b.run(t.Context())(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 12*time.Second {
			t.Errorf("took %s, want 1s + 10s + 1s", took)
		}
		bad, good := b.States()["bad"], b.States()["good"]
		if !bad.Failed || bad.Restarts != 1 || good.Failed {
			t.Errorf("bad %+v good %+v", bad, good)
		}
		last := bad.Events[len(bad.Events)-1]
		if last.Type != api.EventNotRestarting || !last.FailsTask || last.Details["fails_task"] != "true" ||
			last.DisplayMessage != `Exceeded allowed attempts 1 in interval 1h0m0s and mode is "fail"` {
			t.Errorf("last event %+v", last)
		}
		if want := []string{"Received", "Task Setup", "Started", "Sibling Task Failed", "Killing", "Terminated", "Killed"}; !slices.Equal(events(good), want) {
			t.Errorf("events of the sibling %v", events(good))
		}
	})
}

func TestLifecycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "batch",
			hook("after", "poststop", false, lasting(time.Second, 0)), hook("beside", "poststart", true, nil),
			&api.Task{Name: "main", Config: lasting(5*time.Second, 0)},
			hook("side", "prestart", true, nil), hook("init", "prestart", false, lasting(2*time.Second, 0)))
		if err := b.run(t.Context())(); err != nil {
			t.Fatal(err)
		}
		var order []string
		for _, d := range b.driver.started {
			order = append(order, d.Name)
		}
		slices.Sort(order[:2])
		if want := []string{"init", "side", "main", "beside", "after"}; !slices.Equal(order, want) {
			t.Errorf("order %v", order)
		}
		for name, s := range b.States() {
			if s.State != api.TaskStateDead || s.Failed {
				t.Errorf("%s: %+v", name, s)
			}
		}
	})
}

func TestStopEndsLeaderFirstAndRunsPoststop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", &api.Task{Name: "lead", Leader: true, ShutdownDelay: 3 * time.Second}, &api.Task{Name: "other"},
			hook("after", "poststop", false, lasting(time.Second, 0)))
		b.conf.Alloc.Group().ShutdownDelay = 2 * time.Second
		wait := b.run(t.Context())
		b.until(t, "running", running("lead", "other"))
		began := time.Now()
		b.Stop()
		b.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 6*time.Second {
			t.Errorf("took %s, want 2s of the group, 3s of the leader, 1s of poststop", took)
		}
		s := b.States()
		if !s["lead"].FinishedAt.Equal(s["other"].FinishedAt) || s["after"].StartedAt.Before(s["other"].FinishedAt) {
			t.Errorf("lead %v other %v after %v", s["lead"].FinishedAt, s["other"].FinishedAt, s["after"].StartedAt)
		}
		if want := []string{"Received", "Task Setup", "Started", "Waiting for shutdown delay", "Killing", "Terminated", "Killed"}; !slices.Equal(events(s["lead"]), want) {
			t.Errorf("events %v", events(s["lead"]))
		}
	})
}

func TestShutdownDelaysCanBeSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", &api.Task{Name: "t", ShutdownDelay: time.Hour})
		wait := b.run(t.Context())
		b.until(t, "running", running("t"))
		began := time.Now()
		b.Stop()
		synctest.Wait()
		skipDelay := *b.conf.Alloc
		skipDelay.DesiredTransition.NoShutdownDelay = true
		b.Update(&skipDelay)
		if err := wait(); err != nil || time.Since(began) != 0 {
			t.Fatalf("%v after %s", err, time.Since(began))
		}
	})
}

func TestTasksOutliveTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", &api.Task{Name: "t"}, hook("init", "prestart", false, lasting(time.Second, 0)))
		ctx, cancel := context.WithCancel(t.Context())
		wait := b.run(ctx)
		b.until(t, "running", running("t"))
		cancel()
		if err := wait(); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if b.driver.lives() != 1 {
			t.Fatal("task did not outlive the agent")
		}
		b.renew(t)
		wait = b.run(t.Context())
		synctest.Wait()
		if got := len(b.driver.started); got != 2 || !running("t")(b.States()) {
			t.Fatalf("%d starts, states %v", got, b.States()["t"])
		}
		b.Stop()
		if err := wait(); err != nil || b.driver.lives() != 0 {
			t.Fatalf("%v, %d live", err, b.driver.lives())
		}
	})
}

func TestTaskLostWhileAwayFollowsTheRestartPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", &api.Task{Name: "t"})
		ctx, cancel := context.WithCancel(t.Context())
		wait := b.run(ctx)
		b.until(t, "running", running("t"))
		cancel()
		_ = wait()
		clear(b.driver.running)
		b.renew(t)
		wait = b.run(t.Context())
		b.until(t, "running again", func(s map[string]*api.TaskState) bool { return s["t"].Restarts == 1 && running("t")(s) })
		if id := b.driver.started[1].ID; id != "a1/t/2" {
			t.Errorf("second attempt has id %s", id)
		}
		b.Stop()
		_ = wait()
	})
}

func TestStopWhileStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", &api.Task{Name: "t"})
		b.driver.hang = true
		wait := b.run(t.Context())
		synctest.Wait()
		b.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		if s := b.States()["t"]; s.State != api.TaskStateDead || s.Failed {
			t.Fatalf("%+v", s)
		}
	})
}

func TestStartErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "batch", &api.Task{Name: "t", Config: lasting(time.Second, 0)})
		b.driver.startErr = []error{fault.New(fault.Unavailable, "not now")}
		if err := b.run(t.Context())(); err != nil || b.States()["t"].Failed || b.States()["t"].Restarts != 1 {
			t.Fatalf("recoverable: %v %+v", err, b.States()["t"])
		}
		b = setup(t, "batch", &api.Task{Name: "t"})
		b.driver.startErr = []error{fault.New(fault.Invalid, "no such program")}
		_ = b.run(t.Context())()
		s := b.States()["t"]
		if want := []string{"Received", "Task Setup", "Driver Failure", "Not Restarting"}; !s.Failed || !slices.Equal(events(s), want) {
			t.Fatalf("final: %+v %v", s, events(s))
		}
	})
}

// readOnly is a store whose disk takes nothing that must last.
type readOnly struct {
	tasks.Store
	asked func()
}

func (r readOnly) PutTask(task string, rec *store.TaskRecord, durable bool) error {
	if durable {
		r.asked()
		return errors.New("read-only file system")
	}
	return r.Store.PutTask(task, rec, durable)
}

func TestTaskThatIsNotOnDiskDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "batch", &api.Task{Name: "t", Config: lasting(time.Second, 0)})
		var g *tasks.Group
		look := func() {
			if g != nil && g.States()["t"].State == api.TaskStateRunning {
				t.Error("the task is shown as running and that is not on disk")
			}
		}
		b.conf.Store, b.conf.Changed = readOnly{b.conf.Store, look}, look
		g, err := tasks.New(b.conf)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Run(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		s := g.States()["t"]
		if s.State != api.TaskStateDead || !s.Failed || !slices.Contains(events(s), api.EventDriverFailure) || b.driver.lives() != 0 {
			t.Errorf("%s, failed %v, events %v, %d processes", s.State, s.Failed, events(s), b.driver.lives())
		}
	})
}

func TestUserRestartDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", &api.Task{Name: "t"}, &api.Task{Name: "u"})
		wait := b.run(t.Context())
		b.until(t, "running", running("t", "u"))
		for i := range uint64(3) {
			if err := b.Restart(t.Context(), "t", false); err != nil {
				t.Fatal(err)
			}
			b.until(t, "restarted", func(s map[string]*api.TaskState) bool { return s["t"].Restarts == i+1 && running("t")(s) })
		}
		if err := b.Restart(t.Context(), "none", false); !errors.Is(err, fault.NotFound) {
			t.Errorf("unknown task: %v", err)
		}
		if err := b.Signal(t.Context(), "u", "SIGHUP"); err != nil {
			t.Error(err)
		}
		if err := b.Signal(t.Context(), "u", "SIGWHAT"); !errors.Is(err, fault.Invalid) {
			t.Errorf("unknown signal: %v", err)
		}
		if u := b.Stats(t.Context()); len(u.Tasks) != 2 || u.ResourceUsage.MemoryStats.RSS != 20 || u.ResourceUsage.CpuStats.Percent != 3 {
			t.Errorf("stats %+v", u.ResourceUsage)
		}
		b.Stop()
		_ = wait()
		if err := b.Signal(t.Context(), "", "SIGHUP"); !errors.Is(err, fault.Conflict) {
			t.Errorf("signal to the dead: %v", err)
		}
	})
}

func TestVolumesTextFilesAndEnvironmentReachTheDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "batch", &api.Task{
			Name: "t", Config: lasting(time.Second, 0), Env: map[string]string{"WHO": "${NOMAD_TASK_NAME}"},
			VolumeMounts: []*api.VolumeMount{{Volume: "data", Destination: "${WHO}/data", ReadOnly: true, SELinuxLabel: "Z"}},
			Templates:    []*api.Template{{EmbeddedTmpl: "plain", DestPath: "local/${WHO}.txt", Perms: "600"}},
		})
		done := make(chan error, 1)
		go func() {
			done <- b.Run(t.Context(), map[string]driver.Mount{"data": {Source: "/vol", Propagation: "private"}})
		}()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		got := b.driver.started[0]
		if got.Env["WHO"] != "t" || len(got.Mounts) != 1 || got.Mounts[0] != (driver.Mount{Source: "/vol", Destination: "t/data", ReadOnly: true, Propagation: "private", SELinuxLabel: "Z"}) {
			t.Errorf("env %v mounts %+v", got.Env, got.Mounts)
		}
		file := filepath.Join(b.conf.Dirs.Task("t").Local(), "t.txt")
		if text, err := os.ReadFile(file); err != nil || string(text) != "plain" {
			t.Errorf("template: %q %v", text, err)
		}
	})
}

// TestTextFilesReplaceWhatTheTaskPutInTheirPlace: a pipe would be opened for ever.
func TestTextFilesReplaceWhatTheTaskPutInTheirPlace(t *testing.T) {
	b := setup(t, "batch", &api.Task{
		Name: "t", Config: lasting(time.Millisecond, 0), DispatchPayload: &api.DispatchPayloadConfig{File: "in"},
		Templates: []*api.Template{
			{EmbeddedTmpl: "plain", DestPath: "local/pipe"},
			{EmbeddedTmpl: "plain", DestPath: "local/link", Perms: "600"},
			{EmbeddedTmpl: "plain", DestPath: "local/inner/file"},
		},
	})
	b.conf.Alloc.Job.Payload = snappy.Encode(nil, []byte("plain"))
	dir := b.conf.Dirs.Task("t")
	if err := b.conf.Dirs.BuildTask("t"); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := errors.Join(
		os.WriteFile(outside, []byte("mine"), 0o600), os.Symlink(outside, dir.Local()+"/link"), os.Mkdir(dir.Local()+"/inner", 0o755),
		syscall.Mkfifo(dir.Local()+"/pipe", 0o666), syscall.Mkfifo(dir.Local()+"/inner/file", 0o666), syscall.Mkfifo(dir.Local()+"/in", 0o666),
	); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx, nil) }()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-ctx.Done():
		t.Fatal("the task hangs in its setup")
	}
	for _, name := range []string{"pipe", "link", "inner/file", "in"} {
		st, err := os.Lstat(filepath.Join(dir.Local(), name))
		if err != nil || !st.Mode().IsRegular() || st.Size() != 5 {
			t.Errorf("%s: %v %v", name, st, err)
		}
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != "mine" {
		t.Errorf("the file outside holds %q %v", b, err)
	}
	if left, _ := filepath.Glob(dir.Local() + "/.made-*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestSetupThatCannotWorkFailsTheTask(t *testing.T) {
	for want, task := range map[string]*api.Task{
		"downloads no artifacts":    {Artifacts: []*api.TaskArtifact{{}}},
		"template":                  {Templates: []*api.Template{{EmbeddedTmpl: `{{ env "X" }}`}}},
		"vault":                     {Vault: &api.Vault{}},
		"not a volume of the group": {VolumeMounts: []*api.VolumeMount{{Volume: "none", Destination: "x"}}},
		"does not run csi plugins":  {CSIPluginConfig: &api.CSIPluginConfig{ID: "p"}},
		"is outside of":             {Templates: []*api.Template{{EmbeddedTmpl: "x", DestPath: "../../out"}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			task.Name = "t"
			b := setup(t, "service", task)
			_ = b.run(t.Context())()
			s := b.States()["t"]
			if i := slices.Index(events(s), api.EventSetupFailure); !s.Failed || i < 0 || !strings.Contains(s.Events[i].DisplayMessage, want) {
				t.Errorf("%s: %+v %v", want, s, events(s))
			}
		})
	}
}

func TestAbandonedGroupIsDead(t *testing.T) {
	b := setup(t, "service", &api.Task{Name: "t"}, &api.Task{Name: "u"})
	b.Abandon(t.Context(), errors.New("volumes: no such volume"))
	for name, s := range b.States() {
		if s.State != api.TaskStateDead || !s.Failed || s.Events[1].DisplayMessage != "volumes: no such volume" {
			t.Errorf("%s: %+v", name, s)
		}
	}
	b = setup(t, "service", &api.Task{Name: "t"})
	b.Abandon(t.Context(), nil)
	if s := b.States()["t"]; s.State != api.TaskStateDead || s.Failed {
		t.Errorf("%+v", s)
	}
}

func TestAbandonedGroupKillsWhatAnEarlierAgentStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", &api.Task{Name: "t"})
		ctx, cancel := context.WithCancel(t.Context())
		wait := b.run(ctx)
		b.until(t, "running", running("t"))
		cancel()
		_ = wait()
		b.renew(t)
		b.Abandon(t.Context(), errors.New("volume is gone"))
		if s := b.States()["t"]; !s.Failed || s.State != api.TaskStateDead || b.driver.lives() != 0 {
			t.Fatalf("%+v, %d live", s, b.driver.lives())
		}
	})
}

func TestRestartOfAllTasksRevivesTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "batch", &api.Task{Name: "short", Config: lasting(time.Second, 0)}, &api.Task{Name: "long", Config: lasting(time.Hour, 0)})
		wait := b.run(t.Context())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if err := b.Restart(t.Context(), "short", false); !errors.Is(err, fault.Conflict) {
			t.Errorf("restart of a dead task: %v", err)
		}
		if err := b.Restart(t.Context(), "", true); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := b.States(); !running("short", "long")(s) || s["short"].Restarts != 1 || s["long"].Restarts != 1 {
			t.Errorf("short %+v long %+v", s["short"], s["long"])
		}
		b.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		if err := b.Restart(t.Context(), "", true); !errors.Is(err, fault.Conflict) {
			t.Errorf("restart after the end: %v", err)
		}
	})
}

// A task whose directories and files find no room waits for it, says so once, and can be stopped.
func TestTaskWaitsForTheDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	for name, stopped := range map[string]bool{"there is room again": false, "it is stopped": true} {
		t.Run(name, func(t *testing.T) {
			disk := t.TempDir()
			if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "nr_inodes=6"); err != nil { // the task's directory does not fit
				t.Skipf("no tmpfs here: %v", err)
			}
			t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, "service", &api.Task{Name: "t"})
				a, err := dirs.New(disk).Alloc("a1")
				if err == nil {
					err = a.Build()
				}
				if err != nil {
					t.Fatal(err)
				}
				b.conf.Dirs = a
				b.renew(t)
				wait := b.run(t.Context())
				time.Sleep(time.Hour)
				want := []string{"Received", "Task Setup", "Waiting"}
				if s := b.States()["t"]; !slices.Equal(events(s), want) || s.State != api.TaskStatePending {
					t.Errorf("it is %s: %v", s.State, events(s))
				}
				if stopped {
					want = append(want, "Killed")
				} else {
					if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT, "nr_inodes=1000"); err != nil {
						t.Fatal(err)
					}
					b.until(t, "running", running("t"))
					want = append(want, "Started", "Killing", "Terminated", "Killed")
				}
				b.Stop()
				if err := wait(); err != nil {
					t.Fatal(err)
				}
				if s := b.States()["t"]; s.Failed || !slices.Equal(events(s), want) {
					t.Errorf("events %v", events(s))
				}
			})
		})
	}
}
