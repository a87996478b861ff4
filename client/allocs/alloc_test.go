package allocs_test

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/allocs"
	"github.com/open-nomad/open-nomad/client/dirs"
	"github.com/open-nomad/open-nomad/client/steps"
	"github.com/open-nomad/open-nomad/client/store"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// log is the order of what happened.
type log struct {
	mu   sync.Mutex
	said []string
}

func (l *log) say(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, s)
}

func (l *log) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.said)
}

// mounts are volumes in memory: hang lets Up wait, upErr and downErr fail.
type mounts struct {
	*log
	hang     bool
	upErr    error
	downErrs int
	// adoptErr says what is not mounted any more.
	adoptErr error
}

func (m *mounts) Adopt(a *api.Allocation) (map[string]driver.Mount, error) {
	return map[string]driver.Mount{"data": {Source: "/vol/" + a.ID}}, m.adoptErr
}

func (m *mounts) Up(ctx context.Context, a *api.Allocation) (map[string]driver.Mount, error) {
	m.say("mount")
	if m.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return map[string]driver.Mount{"data": {Source: "/vol/" + a.ID}}, m.upErr
}

func (m *mounts) Down(context.Context, string) error {
	m.say("unmount")
	if m.downErrs > 0 {
		m.downErrs--
		return errors.New("busy")
	}
	return nil
}

// work is the tasks in memory: they run until end is closed or they are stopped.
type work struct {
	*log
	changed   func()
	end, stop chan struct{}
	once      sync.Once
	mu        sync.Mutex
	state     api.TaskState
	// received is when the task came to the node, when it remembers that.
	received time.Time
}

func newWork(l *log, changed func(), state string) *work {
	return &work{log: l, changed: changed, end: make(chan struct{}), stop: make(chan struct{}), state: api.TaskState{State: state}}
}

func (w *work) become(state string, failed bool) {
	w.mu.Lock()
	w.state = api.TaskState{State: state, Failed: failed, StartedAt: time.Now(), FinishedAt: time.Now()}
	w.mu.Unlock()
	w.changed()
}

func (w *work) Run(ctx context.Context, m map[string]driver.Mount) error {
	w.say("run " + m["data"].Source)
	w.become(api.TaskStateRunning, false)
	select {
	case <-w.end:
	case <-w.stop:
		w.say("killed")
	case <-ctx.Done():
		return ctx.Err()
	}
	w.become(api.TaskStateDead, false)
	return nil
}

func (w *work) Stop() { w.once.Do(func() { close(w.stop) }) }

func (w *work) Abandon(_ context.Context, err error) {
	w.say("abandon")
	w.become(api.TaskStateDead, err != nil)
}
func (w *work) RestartFailed(task, reason string) { w.say("restart " + task + ": " + reason) }
func (w *work) RunScript(context.Context, string, []string, io.Writer) (int, error) {
	return 0, errors.New("the tasks of these tests run no scripts")
}
func (w *work) Update(*api.Allocation)          {}
func (w *work) Tell(_ []string, kind, _ string) { w.say("event " + kind) }
func (w *work) States() map[string]*api.TaskState {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.state
	if !w.received.IsZero() {
		s.Events = []*api.TaskEvent{{Type: api.EventReceived, Time: w.received.UnixNano()}}
	}
	return map[string]*api.TaskState{"t": &s}
}

type bench struct {
	*log
	conf   allocs.Config
	mounts *mounts
	work   *work
	db     *store.DB
	alloc  *api.Allocation
}

func setup(t *testing.T) *bench {
	t.Helper()
	l := &log{}
	b := &bench{log: l, mounts: &mounts{log: l}, db: store.Memory()}
	job := &api.Job{ID: "j", TaskGroups: []*api.TaskGroup{{Name: "g", Volumes: map[string]*api.VolumeRequest{"data": {Type: "csi"}}}}}
	b.alloc = &api.Allocation{ID: "a1", Job: job, TaskGroup: "g", DesiredStatus: api.AllocDesiredStatusRun}
	b.conf = allocs.Config{
		Dirs: dirs.New(t.TempDir()), Store: b.db, Journal: b.db.Journal("a1"), Volumes: b.mounts,
		Tasks: func(_ *api.Allocation, _ dirs.Alloc, old map[string]*store.TaskRecord, changed func()) (allocs.Tasks, error) {
			state := api.TaskStatePending
			if r := old["t"]; r != nil {
				state = r.State.State
			}
			b.work = newWork(l, changed, state)
			return b.work, nil
		},
		Changed: func(string) {},
		Pace:    steps.Pace{First: time.Second, Max: time.Second},
		Log:     hclog.NewNullLogger(),
	}
	return b
}

func (b *bench) make(t *testing.T) *allocs.Alloc {
	t.Helper()
	all, err := b.db.Allocs()
	if err != nil {
		t.Fatal(err)
	}
	a, err := allocs.New(b.conf, b.alloc, all["a1"])
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func start(ctx context.Context, a *allocs.Alloc) func() error {
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	return func() error { return <-done }
}

func (b *bench) want(t *testing.T, said ...string) {
	t.Helper()
	if got := b.all(); !slices.Equal(got, said) {
		t.Errorf("happened: %q, want %q", got, said)
	}
}

func status(t *testing.T, a *allocs.Alloc, want string) {
	t.Helper()
	if r := a.Report(); r.ClientStatus != want {
		t.Errorf("status %s (%s), want %s", r.ClientStatus, r.ClientDescription, want)
	}
}

func TestLifeOfABatchAllocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		a := b.make(t)
		status(t, a, api.AllocClientStatusPending)
		wait := start(t.Context(), a)
		synctest.Wait()
		status(t, a, api.AllocClientStatusRunning)
		close(b.work.end)
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		status(t, a, api.AllocClientStatusComplete)
		b.want(t, "mount", "run /vol/a1", "unmount")
		if _, err := os.Stat(a.Dir().Logs()); err != nil {
			t.Errorf("logs went with the allocation: %v", err)
		}
		if err := a.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if all, _ := b.db.Allocs(); len(all) > 0 {
			t.Error("record is left")
		}
		if _, err := os.Stat(a.Dir().Dir()); err == nil {
			t.Error("directory is left")
		}
	})
}

// A plugin leaves with its allocation, although that has no volumes.
func TestGroupWithoutVolumesIsTakenDownToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.alloc.Job.TaskGroups[0].Volumes = nil
		a := b.make(t)
		wait := start(t.Context(), a)
		synctest.Wait()
		close(b.work.end)
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		b.want(t, "run ", "unmount")
	})
}

func TestStopTakesDownInReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.mounts.downErrs = 2
		a := b.make(t)
		wait := start(t.Context(), a)
		synctest.Wait()
		stop := *b.alloc
		stop.DesiredStatus = api.AllocDesiredStatusStop
		a.Update(&stop)
		<-a.Ended()
		status(t, a, api.AllocClientStatusComplete)
		select {
		case <-a.Down():
			t.Error("down before the volumes are")
		default:
		}
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		<-a.Down()
		b.want(t, "mount", "run /vol/a1", "killed", "unmount", "unmount", "unmount")
	})
}

func TestStopWhileMountingReturnsAtOnceC8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.mounts.hang = true
		a := b.make(t)
		wait := start(t.Context(), a)
		synctest.Wait()
		began := time.Now()
		a.Stop()
		if err := wait(); err != nil || time.Since(began) != 0 {
			t.Fatalf("%v after %s", err, time.Since(began))
		}
		status(t, a, api.AllocClientStatusComplete)
		b.want(t, "mount", "abandon", "unmount")
	})
}

func TestVolumeThatCannotBeMountedFailsTheAllocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.mounts.upErr = errors.New("no such volume")
		a := b.make(t)
		if err := a.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		status(t, a, api.AllocClientStatusFailed)
		b.want(t, "mount", "abandon", "unmount")
	})
}

func TestAgentRestartAdopts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		ctx, cancel := context.WithCancel(t.Context())
		a := b.make(t)
		wait := start(ctx, a)
		synctest.Wait()
		cancel()
		if err := wait(); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		again := b.make(t)
		wait = start(t.Context(), again)
		synctest.Wait()
		status(t, again, api.AllocClientStatusRunning)
		again.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		b.want(t, "mount", "run /vol/a1", "mount", "run /vol/a1", "killed", "unmount")
	})
}

func TestTerminalOnRestoreStillUnmountsC35(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.mounts.downErrs = 1000
		ctx, cancel := context.WithCancel(t.Context())
		a := b.make(t)
		wait := start(ctx, a)
		synctest.Wait()
		close(b.work.end)
		<-a.Ended()
		synctest.Wait()
		cancel()
		_ = wait()
		if err := b.db.PutTask("a1", "t", &store.TaskRecord{State: &api.TaskState{State: api.TaskStateDead}}, true); err != nil {
			t.Fatal(err)
		}
		b.said, b.mounts.downErrs = nil, 1
		again := b.make(t)
		if err := again.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.want(t, "unmount", "unmount")
		b.said = nil
		if err := b.make(t).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.want(t)
	})
}

func TestWaitsForThePredecessorOnTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.alloc.PreviousAllocation = "a0"
		over := make(chan struct{})
		b.conf.Ended = func(id string) <-chan struct{} {
			if id == "a0" {
				return over
			}
			return nil
		}
		a := b.make(t)
		wait := start(t.Context(), a)
		synctest.Wait()
		b.want(t)
		close(over)
		synctest.Wait()
		status(t, a, api.AllocClientStatusRunning)
		a.Stop()
		_ = wait()
	})
}

func TestAllocationThatHasNoGroupFails(t *testing.T) {
	b := setup(t)
	b.conf.Tasks = func(*api.Allocation, dirs.Alloc, map[string]*store.TaskRecord, func()) (allocs.Tasks, error) {
		return nil, errors.New("no group")
	}
	a := b.make(t)
	if err := a.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	status(t, a, api.AllocClientStatusFailed)
	b.alloc.ID = "../evil"
	if _, err := allocs.New(b.conf, b.alloc, nil); err == nil {
		t.Error("id that is a path was taken")
	}
}

func TestStopBeforeTheStartStillGivesBackVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.alloc.DesiredStatus = api.AllocDesiredStatusStop
		a := b.make(t)
		if err := a.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		status(t, a, api.AllocClientStatusComplete)
		b.want(t, "abandon", "unmount")
	})
}
