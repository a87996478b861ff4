package checks_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/checks"
)

// group are the tasks of an allocation: one, named t.
type group struct {
	mu       sync.Mutex
	state    api.TaskState
	restarts []string
}

func (g *group) States() map[string]*api.TaskState {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.state
	return map[string]*api.TaskState{"t": &s}
}

func (g *group) RestartFailed(task, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.restarts = append(g.restarts, task+": "+reason)
}

// RunScript plays a script: its first argument is the exit code, its second the output; "hang" never ends by itself.
func (g *group) RunScript(ctx context.Context, task string, args []string, out io.Writer) (int, error) {
	if task != "t" {
		return 0, fmt.Errorf("task %q", task)
	}
	_, _ = out.Write([]byte(args[2]))
	if args[1] == "hang" {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return strconv.Atoi(args[1])
}

func (g *group) asked() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.restarts...)
}

func (g *group) become(state string, restarts uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state = api.TaskState{State: state, StartedAt: time.Unix(1, 0), Restarts: restarts}
}

// with makes an allocation whose service has the checks, at the address of a listener.
func with(address string, all ...api.ServiceCheck) *api.Allocation {
	host, port, _ := net.SplitHostPort(address)
	number := 0
	_, _ = fmt.Sscan(port, &number)
	for i := range all {
		all[i].Interval, all[i].Timeout = time.Second, time.Minute
	}
	return &api.Allocation{
		ID: "a1", Name: "j.g[0]", Namespace: "default", JobID: "j", TaskGroup: "g",
		Job: &api.Job{ID: "j", TaskGroups: []*api.TaskGroup{{
			Name: "g", Tasks: []*api.Task{{Name: "t"}}, Services: []*api.Service{{Name: "web", Provider: "nomad", PortLabel: "http", Checks: all}},
		}}},
		AllocatedResources: &api.AllocatedResources{Shared: api.AllocatedSharedResources{Ports: []api.PortMapping{{Label: "http", HostIP: host, Value: number}}}},
	}
}

func prober() *checks.Prober {
	return checks.New(checks.Config{
		Replace: func(_ *api.Allocation, task string) func(string) string {
			return func(text string) string { return strings.ReplaceAll(text, "${task}", task) }
		},
		Address: func() string { return "127.0.0.1" }, Jitter: func(time.Duration) time.Duration { return 0 },
	})
}

// run runs the checks until the test ends.
func run(t *testing.T, a *api.Allocation, g *group) *checks.Set {
	t.Helper()
	s := prober().Set(a, g, func() {})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { s.Run(ctx) })
	t.Cleanup(func() { cancel(); all.Wait() })
	return s
}

func one(s *checks.Set) *api.AllocCheckStatus {
	for _, c := range s.Results() {
		return c
	}
	return &api.AllocCheckStatus{}
}

func await(t *testing.T, what string, fact func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !fact(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func TestStatusFollowsTheResponses(t *testing.T) {
	t.Parallel()
	var code atomic.Int32
	code.Store(http.StatusServiceUnavailable)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "POST" || r.URL.Path != "/health" || r.URL.RawQuery != "a=b" || r.Header.Get("X-A") != "t" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.WriteHeader(int(code.Load()))
	}))
	defer srv.Close()
	a := with(srv.Listener.Addr().String(), api.ServiceCheck{
		Name: "c", Type: "http", Path: "/health?a=b", Method: "POST", Header: map[string][]string{"X-A": {"${task}"}}, TaskName: "t",
	})
	g := &group{}
	g.become(api.TaskStatePending, 0)
	s := run(t, a, g)
	if c := one(s); c.Status != api.CheckPending || c.Mode != api.CheckHealthiness || c.Service != "web" || c.Check != "c" || c.Group != "j.g[0]" || c.Task != "t" {
		t.Errorf("before the task runs: %+v", c)
	}
	g.become(api.TaskStateRunning, 0)
	s.TasksChanged()
	await(t, "failure", func() bool { return one(s).Status == api.CheckFailure })
	if c := one(s); c.StatusCode != http.StatusServiceUnavailable || !strings.Contains(c.Output, "503") {
		t.Errorf("the service is unavailable: %+v", c)
	}
	if all, _ := s.Passing(); all {
		t.Error("a failing check passes")
	}
	code.Store(http.StatusFound)
	await(t, "success", func() bool { return one(s).Status == api.CheckSuccess })
	if all, span := s.Passing(); !all || span < 0 {
		t.Errorf("a passing check: %v, %v", all, span)
	}
	g.become(api.TaskStatePending, 1)
	s.TasksChanged()
	await(t, "pending", func() bool { return one(s).Status == api.CheckPending })
}

func TestSilentServiceFailsAtTheTimeout(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // it accepts nothing, the kernel does
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	a := with(l.Addr().String(), api.ServiceCheck{Name: "c", Type: "http", Path: "/"})
	a.Job.TaskGroups[0].Services[0].Checks[0].Timeout = time.Second
	g := &group{}
	g.become(api.TaskStateRunning, 0)
	s := run(t, a, g)
	await(t, "failure", func() bool { return one(s).Status == api.CheckFailure })
	if c := one(s); !strings.Contains(c.Output, "no response within 1s") {
		t.Errorf("%+v", c)
	}
}

func TestTCP(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &group{}
	g.become(api.TaskStateRunning, 0)
	s := run(t, with(l.Addr().String(), api.ServiceCheck{Name: "c", Type: "tcp", OnUpdate: "ignore"}), g)
	await(t, "success", func() bool { return one(s).Status == api.CheckSuccess })
	_ = l.Close()
	await(t, "failure", func() bool { return one(s).Status == api.CheckFailure })
	if all, _ := s.Passing(); !all || one(s).Mode != api.CheckReadiness {
		t.Errorf("a check with on_update = ignore counts: %+v", one(s))
	}
}

func TestThresholdsNeedProbesInARow(t *testing.T) {
	t.Parallel()
	var probes atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n := probes.Add(1); n == 1 || n == 2 || n >= 5 { // pass, pass, fail, fail, pass ...
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer srv.Close()
	g := &group{}
	g.become(api.TaskStateRunning, 0)
	s := run(t, with(srv.Listener.Addr().String(), api.ServiceCheck{
		Name: "c", Type: "http", Path: "/", InitialStatus: "critical", SuccessBeforePassing: 3, FailuresBeforeCritical: 3,
	}), g)
	if c := one(s); c.Status != api.CheckFailure {
		t.Errorf("initial status: %+v", c)
	}
	await(t, "success", func() bool { return one(s).Status == api.CheckSuccess })
	if n := probes.Load(); n < 7 {
		t.Errorf("success after %d probes: never 3 in a row", n)
	}
}

func TestFailingChecksRestartATaskOncePerStart(t *testing.T) {
	t.Parallel()
	var probes atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		probes.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer srv.Close()
	g := &group{}
	g.become(api.TaskStateRunning, 0)
	s := run(t, with(srv.Listener.Addr().String(), api.ServiceCheck{
		Name: "c", Type: "http", Path: "/", CheckRestart: &api.CheckRestart{Limit: 2},
	}), g)
	await(t, "restart", func() bool { return len(g.asked()) == 1 })
	if n := probes.Load(); n < 2 {
		t.Errorf("restart after %d failures", n)
	}
	if want := `t: healthcheck: check "c" unhealthy`; g.asked()[0] != want {
		t.Errorf("got %q, want %q", g.asked()[0], want)
	}
	seen := probes.Load()
	await(t, "five more failures", func() bool { return probes.Load() >= seen+5 })
	if got := g.asked(); len(got) != 1 {
		t.Errorf("restarts of one start: %q", got)
	}
	g.become(api.TaskStateRunning, 1)
	s.TasksChanged()
	await(t, "restart of the next start", func() bool { return len(g.asked()) == 2 })
}

func TestUpdateKeepsTheStatusOfUnchangedChecks(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	address := srv.Listener.Addr().String()
	old := api.ServiceCheck{Name: "old", Type: "http", Path: "/"}
	g := &group{}
	g.become(api.TaskStateRunning, 0)
	s := run(t, with(address, old), g)
	await(t, "success", func() bool { return one(s).Status == api.CheckSuccess })
	s.Update(with(address, old, api.ServiceCheck{Name: "new", Type: "tcp", PortLabel: "none"}))
	got := map[string]*api.AllocCheckStatus{}
	for _, c := range s.Results() {
		got[c.Check] = c
	}
	if len(got) != 2 || got["old"].Status != api.CheckSuccess {
		t.Errorf("after an update: %+v", got)
	}
	await(t, "the reason of the new check", func() bool {
		for _, c := range s.Results() {
			if c.Check == "new" && c.Status == api.CheckFailure && strings.Contains(c.Output, "not a port of the allocation") {
				return true
			}
		}
		return false
	})
	s.Update(with(address))
	if got := s.Results(); len(got) != 0 {
		t.Errorf("without checks: %+v", got)
	}
}
