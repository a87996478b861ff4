package tasks_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/dirs"
	"github.com/open-nomad/open-nomad/client/store"
	"github.com/open-nomad/open-nomad/client/tasks"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// scripted is a driver in memory: "run_for" and "exit_code" of the config tell how a task ends;
// without run_for it runs until it is stopped.
type scripted struct {
	driver.Driver
	mu      sync.Mutex
	running map[string]*process
	started []*driver.Task
	sought  []string
	// silent is how many questions for attempts are not answered.
	silent int
	// stops are the signals and timeouts of the stops.
	stops []string
	// startErr fails the next starts, hang lets them wait for their context.
	startErr []error
	hang     bool
	// hangErr is the end of a start that hangs and was given up.
	hangErr error
	// left are the processes of tasks that have not ended.
	left []driver.Remain
	// forgets is called before an attempt is removed, which takes slow.
	forgets func(id string)
	slow    time.Duration
}

func (s *scripted) Remains(string) []driver.Remain {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left
}

type process struct {
	done chan struct{}
	exit driver.Exit
	once sync.Once
}

func (p *process) end(x driver.Exit) { p.once.Do(func() { p.exit = x; close(p.done) }) }

func newScripted() *scripted { return &scripted{running: map[string]*process{}} }

func (s *scripted) Name() string { return "fake" }
func (s *scripted) Capabilities() driver.Capabilities {
	return driver.Capabilities{Mounts: true, Isolation: driver.IsolationNone}
}
func (s *scripted) ValidateConfig(map[string]any) error { return nil }

func (s *scripted) Start(ctx context.Context, t *driver.Task) (*driver.Handle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hang {
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		if s.hangErr != nil {
			return nil, s.hangErr
		}
		return nil, ctx.Err()
	}
	if len(s.startErr) > 0 {
		err := s.startErr[0]
		s.startErr = s.startErr[1:]
		return nil, err
	}
	p := &process{done: make(chan struct{})}
	s.running[t.ID] = p
	s.started = append(s.started, t)
	if d, ok := t.Config["run_for"].(time.Duration); ok {
		code, _ := t.Config["exit_code"].(int)
		time.AfterFunc(d, func() { p.end(driver.Exit{Code: code}) })
	}
	return &driver.Handle{Driver: "fake", TaskID: t.ID, StartedAt: time.Now(), State: json.RawMessage(`{}`)}, nil
}

func (s *scripted) process(id string) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.running[id]; p != nil {
		return p, nil
	}
	return nil, fault.New(fault.NotFound, "task %s", id)
}

func (s *scripted) Inspect(id string) (*driver.Status, error) {
	p, err := s.process(id)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.done:
		return &driver.Status{ID: id, State: driver.StateExited}, nil
	default:
		return &driver.Status{ID: id, State: driver.StateRunning}, nil
	}
}

func (s *scripted) Recover(_ context.Context, h *driver.Handle) error {
	_, err := s.process(h.TaskID)
	return err
}

func (s *scripted) Find(_ context.Context, id string) (*driver.Handle, error) {
	s.mu.Lock()
	s.sought = append(s.sought, id)
	silent := s.silent > 0
	s.silent--
	s.mu.Unlock()
	if silent {
		return nil, fault.New(fault.Unavailable, "the engine does not answer")
	}
	if _, err := s.process(id); err != nil {
		return nil, err
	}
	return &driver.Handle{Driver: "fake", TaskID: id}, nil
}

func (s *scripted) Wait(ctx context.Context, id string) (*driver.Exit, error) {
	p, err := s.process(id)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.done:
		return &p.exit, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *scripted) Stop(_ context.Context, id, signal string, timeout time.Duration) error {
	p, err := s.process(id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.stops = append(s.stops, signal+" "+timeout.String())
	s.mu.Unlock()
	p.end(driver.Exit{Code: 130, Signal: 2})
	return nil
}

func (s *scripted) Destroy(ctx context.Context, id string) error {
	if s.forgets != nil {
		s.forgets(id)
	}
	select {
	case <-time.After(s.slow):
	case <-ctx.Done():
		return ctx.Err()
	}
	if _, err := s.process(id); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, id)
	return nil
}

func (s *scripted) Signal(_ context.Context, id, _ string) error {
	_, err := s.process(id)
	return err
}

func (s *scripted) Stats(context.Context, string) (*api.TaskResourceUsage, error) {
	return &api.TaskResourceUsage{ResourceUsage: &api.ResourceUsage{
		MemoryStats: &api.MemoryStats{RSS: 10}, CpuStats: &api.CpuStats{Percent: 1.5},
	}}, nil
}

func (s *scripted) lives() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running)
}

// records is the store of one allocation.
type records struct{ db *store.DB }

func (r records) PutTask(task string, rec *store.TaskRecord, durable bool) error {
	return r.db.PutTask("a1", task, rec, durable)
}

// bench is a group with all that it needs.
type bench struct {
	*tasks.Group
	driver  *scripted
	db      *store.DB
	changed chan struct{}
	conf    tasks.Config
	mounts  map[string]driver.Mount
	lease   *driver.Lease
	instead driver.Driver // of the scripted one
}

func setup(t *testing.T, jobType string, list ...*api.Task) *bench {
	t.Helper()
	a, err := dirs.New(t.TempDir()).Alloc("a1")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Build(); err != nil {
		t.Fatal(err)
	}
	for _, task := range list {
		task.Driver = "fake"
	}
	job := &api.Job{ID: "j", Name: "j", Type: jobType, TaskGroups: []*api.TaskGroup{{
		Name: "g", Tasks: list, RestartPolicy: &api.RestartPolicy{Attempts: 1, Interval: time.Hour, Delay: 10 * time.Second, Mode: "fail"},
	}}}
	b := &bench{driver: newScripted(), db: store.Memory(), changed: make(chan struct{}, 1)}
	b.conf = tasks.Config{
		Alloc: &api.Allocation{ID: "a1", Job: job, JobID: "j", TaskGroup: "g"}, Dirs: a, Store: records{b.db},
		Node: func() *api.Node { return &api.Node{ID: "n1"} },
		Driver: func(name string) (driver.Driver, error) {
			if name != "fake" {
				return nil, fault.New(fault.Invalid, "no driver %q", name)
			}
			if b.instead != nil {
				return b.instead, nil
			}
			return b.driver, nil
		},
		Changed: func() {
			select {
			case b.changed <- struct{}{}:
			default:
			}
		},
		Lease:  func() *driver.Lease { return b.lease },
		Jitter: func(time.Duration) time.Duration { return 0 },
		Log:    hclog.NewNullLogger(),
	}
	b.renew(t)
	return b
}

// renew makes the group again from what the store holds, as a new agent process would.
func (b *bench) renew(t *testing.T) {
	t.Helper()
	if err := b.db.PutAlloc(b.conf.Alloc); err != nil {
		t.Fatal(err)
	}
	all, err := b.db.Allocs()
	if err != nil {
		t.Fatal(err)
	}
	b.conf.Restored = all["a1"].Tasks
	if b.Group, err = tasks.New(b.conf); err != nil {
		t.Fatal(err)
	}
}

// run starts the group; the returned function waits for its end.
func (b *bench) run(ctx context.Context) func() error {
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx, b.mounts) }()
	return func() error { return <-done }
}

// until waits until the states satisfy ok.
func (b *bench) until(t *testing.T, what string, ok func(map[string]*api.TaskState) bool) {
	t.Helper()
	limit := time.After(time.Hour)
	for !ok(b.States()) {
		select {
		case <-b.changed:
		case <-limit:
			t.Fatalf("never: %s", what)
		}
	}
}

func running(names ...string) func(map[string]*api.TaskState) bool {
	return func(s map[string]*api.TaskState) bool {
		for _, n := range names {
			if s[n].State != api.TaskStateRunning {
				return false
			}
		}
		return true
	}
}

func events(s *api.TaskState) []string {
	var out []string
	for _, e := range s.Events {
		out = append(out, e.Type)
	}
	return out
}
