package docker_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/docker"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/enginetest"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

func TestStartThatWasNotAnsweredIsFoundAndNotDoubled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/s"
	d := newDriver(t, dir, nil)
	task := newTask(t, taskConfig(nil, "sleep"))
	if _, err := d.Find(suite.Context(t), task.ID); !errors.Is(err, fault.NotFound) {
		t.Fatalf("find before the start: %v", err)
	}
	first := start(t, d, task)
	if err := d.Close(); err != nil { // the agent dies before it has stored the handle
		t.Fatal(err)
	}
	d = newDriver(t, dir, nil)
	if _, err := d.Start(suite.Context(t), task); !errors.Is(err, fault.Conflict) {
		t.Errorf("second start: %v, want conflict", err)
	}
	found, err := d.Find(suite.Context(t), task.ID)
	if err != nil || string(found.State) != string(first.State) {
		t.Fatalf("found %+v %v, want %+v", found, err, first)
	}
	if err := d.Recover(suite.Context(t), found); err != nil {
		t.Fatal(err)
	}
	if ids := containers(t, task); len(ids) != 1 {
		t.Errorf("containers are %v", ids)
	}
	if err := d.Destroy(bounded(t), task.ID); err != nil {
		t.Error(err)
	}
}

func TestContainerThatWasNotStartedIsNoAttempt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/s"
	d := newDriver(t, dir, nil)
	task := newTask(t, taskConfig(nil, "sleep"))
	start(t, d, task)
	old, err := shared.Client.ContainerInspect(suite.Context(t), "web-"+task.AllocID, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Destroy(suite.Context(t), task.ID); err != nil {
		t.Fatal(err)
	}
	c := old.Container
	for range 2 {
		if _, err := shared.Client.ContainerCreate(suite.Context(t), client.ContainerCreateOptions{Config: c.Config, Name: strings.TrimPrefix(c.Name, "/")}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Find(suite.Context(t), task.ID); !errors.Is(err, fault.NotFound) {
			t.Errorf("find: %v, want not found", err)
		}
		if ids := containers(t, task); len(ids) != 0 {
			t.Errorf("containers are %v", ids)
		}
	}
	if _, err := shared.Client.ContainerCreate(suite.Context(t), client.ContainerCreateOptions{Config: c.Config, Name: strings.TrimPrefix(c.Name, "/")}); err != nil {
		t.Fatal(err)
	}
	start(t, d, task) // in its place
}

func TestNameOfAForeignContainerIsRefused(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir()+"/s", nil)
	other := newDriver(t, t.TempDir()+"/s", nil)
	task := newTask(t, taskConfig(nil, "sleep"))
	start(t, other, task)
	if _, err := d.Start(suite.Context(t), task); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "has not made") {
		t.Errorf("start: %v", err)
	}
	if st, err := other.Inspect(task.ID); err != nil || st.State != driver.StateRunning {
		t.Errorf("the other's task: %+v %v", st, err)
	}
}

func TestUnknownTasksArePruned(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/s"
	d := newDriver(t, dir, nil)
	stranger := newDriver(t, t.TempDir()+"/s", nil)
	tasks := map[string]*driver.Task{}
	for _, name := range []string{"kept", "spared", "plain", "volume", "foreign"} {
		task := newTask(t, taskConfig(nil, "sleep"))
		task.AllocID, task.ID = "prune-"+name, "prune-"+name+"/web/1"
		if name == "volume" {
			task.Mounts = []driver.Mount{{Source: t.TempDir(), Destination: "/v"}}
		}
		tasks[name] = task
		if name == "foreign" {
			start(t, stranger, task)
			continue
		}
		h, err := d.Start(suite.Context(t), task)
		if err != nil {
			t.Fatal(err)
		}
		if name == "kept" {
			defer func() { _ = d.Destroy(bounded(t), task.ID) }()
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if d = newDriver(t, dir, nil); d.Recover(suite.Context(t), h) != nil {
				t.Fatal("not recovered")
			}
		}
	}
	again := newDriver(t, dir, nil)
	h, err := again.Find(suite.Context(t), tasks["kept"].ID)
	if err != nil || again.Recover(suite.Context(t), h) != nil {
		t.Fatal(err)
	}
	spare := []string{tasks["spared"].ID}
	if got, err := again.Prune(suite.Context(t), spare, false); err != nil || strings.Join(got, " ") != "prune-volume/web/1" {
		t.Errorf("first: %v %v", got, err)
	}
	if got, err := again.Prune(suite.Context(t), spare, true); err != nil || strings.Join(got, " ") != "prune-plain/web/1" {
		t.Errorf("then: %v %v", got, err)
	}
	for _, name := range []string{"kept", "spared", "foreign"} {
		if len(containers(t, tasks[name])) != 1 {
			t.Errorf("%s was removed", name)
		}
	}
	if _, err := again.Prune(suite.Context(t), nil, true); err != nil {
		t.Error(err)
	}
}

func TestDanglingContainersAreCollected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/s"
	conf := func(dry bool) map[string]any {
		return map[string]any{"gc": []any{map[string]any{"dangling_containers": []any{map[string]any{"period": "1s", "creation_grace": "0s", "dry_run": dry}}}}}
	}
	d := newDriver(t, dir, conf(false))
	known, unknown := newTask(t, taskConfig(nil, "sleep")), newTask(t, taskConfig(nil, "sleep"))
	unknown.AllocID, unknown.ID = "dangling", "dangling/web/1"
	h := start(t, d, known)
	if _, err := d.Start(suite.Context(t), unknown); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	dry := newDriver(t, dir, conf(true))
	if err := dry.Recover(suite.Context(t), h); err != nil {
		t.Fatal(err)
	}
	if _, err := dry.Fingerprint(suite.Context(t)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2500 * time.Millisecond) // two looks
	if len(containers(t, unknown)) != 1 {
		t.Fatal("a dry run removes")
	}
	if err := dry.Close(); err != nil {
		t.Fatal(err)
	}
	d = newDriver(t, dir, conf(false))
	if err := d.Recover(suite.Context(t), h); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Fingerprint(suite.Context(t)); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the unknown container is removed", func() bool { return len(containers(t, unknown)) == 0 })
	if len(containers(t, known)) != 1 {
		t.Error("the known one is removed, too")
	}
	_ = d.Destroy(bounded(t), known.ID)
}

// numbers checks that a log has each of the task's lines once and in order, and returns how many.
func numbers(t *testing.T, task *driver.Task) int {
	t.Helper()
	text := suite.LogText(task, "stdout")
	n := 0
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		if line != fmt.Sprintf("line %d\n", n) {
			t.Fatalf("line %d is %q", n, line)
		}
		n++
	}
	return n
}

func TestOutputIsNeitherLostNorDoubledWhenTheAgentRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/s"
	d := newDriver(t, dir, nil)
	const lines = 600
	task := newTask(t, taskConfig(nil, "count", fmt.Sprint(lines), "5"))
	h := start(t, d, task)
	for restart := range 3 {
		suite.Eventually(t, "more output is written", func() bool { return numbers(t, task) > restart*100 })
		cursor := dir + "/" + strings.Trim(strings.Split(string(h.State), ":")[1], `"}`) + ".json"
		before, err := os.ReadFile(cursor)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if restart > 0 { // the agent was killed: its last cursor was not stored
			if err := os.WriteFile(cursor, before, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		d = newDriver(t, dir, nil)
		if err := d.Recover(suite.Context(t), h); err != nil {
			t.Fatal(err)
		}
	}
	suite.Eventually(t, "all output is written", func() bool { return numbers(t, task) == lines })
	if err := d.Destroy(suite.Context(t), task.ID); err != nil {
		t.Fatal(err)
	}
	if n := numbers(t, task); n != lines {
		t.Errorf("%d lines at the end", n)
	}
}

func TestLogCollectionCanBeDisabled(t *testing.T) {
	t.Parallel()
	for name, block := range map[string]map[string]any{"agent": {"disable_log_collection": true}, "task": nil} {
		d := newDriver(t, t.TempDir()+"/s", block)
		task := newTask(t, taskConfig(nil, "print"))
		task.AllocID, task.ID = "nolog-"+name, "nolog-"+name+"/web/1"
		task.Logs.Disabled = name == "task"
		if x, out := run(t, d, task); !x.Successful() || out != "" {
			t.Errorf("%s: exit %+v, output %q", name, x, out)
		}
	}
}

func TestTerminalAndUnreadableLogs(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir()+"/s", nil)
	task := newTask(t, taskConfig(map[string]any{"tty": true}, "print"))
	if _, out := run(t, d, task); out != "out\r\nerr\r\n" && out != "err\r\nout\r\n" {
		t.Errorf("output of the terminal is %q", out)
	}
	task = newTask(t, taskConfig(map[string]any{"logging": map[string]any{"driver": "none"}}, "print"))
	task.AllocID, task.ID = "unreadable", "unreadable/web/1"
	if x, out := run(t, d, task); !x.Successful() || out != "" {
		t.Errorf("exit %+v, output %q", x, out)
	}
}

// engineOfOwn starts an engine for one test.
func engineOfOwn(t *testing.T) *enginetest.Engine {
	t.Helper()
	engine(t)
	place, err := os.MkdirTemp("", "away")
	if err != nil {
		t.Fatal(err)
	}
	e, err := enginetest.Start(place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(place)
	})
	return e
}

// TestEngineThatIsAway has an engine of its own, which it kills.
func TestEngineThatIsAway(t *testing.T) {
	t.Parallel()
	e := engineOfOwn(t)
	dir := t.TempDir() + "/s"
	d := driverOf(t, e, dir, nil)
	health := func() driver.Fingerprint {
		ch, err := d.Fingerprint(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return <-ch
	}
	if f := health(); f.Health != driver.Healthy {
		t.Fatalf("health is %+v", f)
	}
	stays, ends := newTask(t, taskConfig(nil, "sleep")), newTask(t, taskConfig(nil, "count", "1000000", "1"))
	ends.AllocID, ends.ID = "ends", "ends/web/1"
	stays.Logs.Dir = t.TempDir()
	killed := newTask(t, taskConfig(nil, "sleep"))
	killed.AllocID, killed.ID = "killed", "killed/web/1"
	start(t, d, killed)
	inside, err := e.Client.ContainerInspect(suite.Context(t), "web-killed", client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kept := start(t, d, stays)
	start(t, d, ends)
	suite.Eventually(t, "the task prints", func() bool { return numbers(t, ends) > 10 })

	if err := e.Kill(); err != nil {
		t.Fatal(err)
	}
	if f := health(); f.Health != driver.Unhealthy || f.Description != "Failed to connect to docker daemon" {
		t.Errorf("health without the engine is %+v", f)
	}
	later := driverOf(t, e, dir, nil)
	if err := later.Recover(suite.Context(t), kept); !errors.Is(err, fault.Unavailable) {
		t.Errorf("recover without the engine: %v, want unavailable", err)
	}
	if _, err := later.Find(suite.Context(t), "x/web/1"); !errors.Is(err, fault.Unavailable) {
		t.Errorf("find without the engine: %v, want unavailable", err)
	}
	if err := d.Stop(suite.Context(t), stays.ID, "", time.Second); !errors.Is(err, fault.Unavailable) {
		t.Errorf("stop without the engine: %v, want unavailable", err)
	}
	if err := d.Stop(suite.Context(t), killed.ID, "SIGKILL", 0); !errors.Is(err, fault.Unavailable) {
		t.Errorf("kill without the engine: %v, want unavailable", err)
	}
	suite.Eventually(t, "the process has ended without the engine", func() bool {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", inside.Container.State.Pid))
		return err != nil || strings.Contains(string(state), ") Z ")
	})
	if st, err := d.Inspect(stays.ID); err != nil || st.State != driver.StateRunning {
		t.Errorf("a task without the engine: %+v %v", st, err)
	}
	fresh := newTask(t, taskConfig(nil, "sleep"))
	fresh.AllocID, fresh.ID = "fresh", "fresh/web/1"
	if _, err := d.Start(suite.Context(t), fresh); !errors.Is(err, fault.Unavailable) {
		t.Errorf("start without the engine: %v, want unavailable", err)
	}

	if err := e.Run(); err != nil {
		t.Fatal(err, e.Output())
	}
	if f := health(); f.Health != driver.Healthy {
		t.Errorf("health with the engine back is %+v", f)
	}
	if err := later.Recover(suite.Context(t), kept); err != nil {
		t.Errorf("recover with the engine back: %v", err)
	}
	if x, err := d.Wait(suite.Context(t), killed.ID); err != nil || x.Successful() {
		t.Errorf("killed without the engine: exit %+v, %v", x, err)
	}
	for _, id := range []string{stays.ID, ends.ID} {
		if err := d.Stop(suite.Context(t), id, "SIGTERM", 20*time.Second); err != nil {
			t.Fatal(err)
		}
		x, err := d.Wait(suite.Context(t), id)
		t.Logf("%s: exit %+v, %v", id, x, err)
		if err != nil || x.Code == 0 {
			t.Errorf("%s: exit %+v, %v", id, x, err)
		}
	}
	if n := numbers(t, ends); n < 10 {
		t.Errorf("%d lines", n)
	}
	if _, err := later.Wait(suite.Context(t), stays.ID); err != nil {
		t.Error(err)
	}
}

func TestEngineThatNeverWas(t *testing.T) {
	t.Parallel()
	c, err := docker.ParseConfig(map[string]any{"endpoint": "unix://" + t.TempDir() + "/none.sock"})
	if err != nil {
		t.Fatal(err)
	}
	c.StateDir = t.TempDir() + "/none"
	d := docker.New(c, nullLogger)
	ch, err := d.Fingerprint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f := <-ch; f.Health != driver.Undetected || f.Attributes["driver.docker"] != "" {
		t.Errorf("health is %+v", f)
	}
	if _, err := d.Prune(suite.Context(t), nil, true); err != nil {
		t.Errorf("prune: %v", err)
	}
	if _, err := d.Find(suite.Context(t), "a/b/1"); !errors.Is(err, fault.NotFound) {
		t.Errorf("find: %v", err)
	}
}
