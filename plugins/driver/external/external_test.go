package external_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/external"
	"github.com/open-nomad/open-nomad/plugins/driver/external/protocol"
	"github.com/open-nomad/open-nomad/plugins/driver/external/serve"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/build"
	"github.com/open-nomad/open-nomad/plugins/program/schema"
)

var program string

func TestMain(m *testing.M) {
	if os.Getenv(protocol.Kind.Cookie) != "" {
		plays[os.Args[1]]()
		os.Exit(0)
	}
	dir, err := os.MkdirTemp("", "external")
	if err == nil {
		program, err = build.Program(context.Background(), dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// agentConfig is the config of the plugin block; taskConfig adds a key to those of raw_exec.
type agentConfig struct {
	Program string `config:"program,required"`
}

type taskConfig struct {
	Command string            `config:"command,required"`
	Args    []string          `config:"args"`
	Cgroups map[string]string `config:"cgroup_v1_override"`
	Adj     int               `config:"oom_score_adj"`
}

// eventful is raw_exec with an event per task.
type eventful struct{ *rawexec.Driver }

func (e eventful) Start(ctx context.Context, t *driver.Task) (*driver.Handle, error) {
	t.Event("it starts")
	return e.Driver.Start(ctx, t)
}

func newRawExec(config map[string]any, dir string, log hclog.Logger) (driver.Driver, error) {
	var c agentConfig
	if err := driver.DecodeConfig(rawexec.Name, config, &c); err != nil {
		return nil, err
	}
	return eventful{rawexec.New(rawexec.Config{Enabled: true, StateDir: dir, Program: c.Program}, log)}, nil
}

var good = serve.Plugin{
	Name: rawexec.Name, AgentConfig: agentConfig{}, TaskConfig: taskConfig{}, New: newRawExec,
	Capabilities: driver.Capabilities{Mounts: true, Signals: true, Exec: true, Isolation: driver.IsolationNone},
}

// late is raw_exec whose start continues after its caller has left, once the file "go" is in the task's directory. It makes the
// file "asked" when a task is to be destroyed.
type late struct {
	*rawexec.Driver
	dir string
}

func (l late) Start(ctx context.Context, t *driver.Task) (*driver.Handle, error) {
	for {
		if _, err := os.Stat(filepath.Join(t.Dir, "go")); err == nil {
			return l.Driver.Start(context.WithoutCancel(ctx), t)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (l late) Destroy(ctx context.Context, id string) error {
	err := l.Driver.Destroy(ctx, id)
	return errors.Join(err, os.WriteFile(filepath.Join(l.dir, "asked"), nil, 0o600))
}

// hostile serves answers that no driver should give.
type hostile struct {
	protocol.UnimplementedDriverServer
	info func() (*protocol.InfoResponse, error)
}

func (h *hostile) Info(context.Context, *protocol.InfoRequest) (*protocol.InfoResponse, error) {
	return h.info()
}

func serveHostile(info func() (*protocol.InfoResponse, error)) {
	protocol.Kind.Serve(func(r grpc.ServiceRegistrar, _ hclog.Logger) { protocol.RegisterDriverServer(r, &hostile{info: info}) })
}

// plays are what the process of a driver does.
var plays = map[string]func(){
	"good": func() { serve.Serve(good) },
	"late": func() {
		slow := good
		slow.New = func(config map[string]any, dir string, log hclog.Logger) (driver.Driver, error) {
			d, err := newRawExec(config, dir, log)
			if err != nil {
				return nil, err
			}
			return late{d.(eventful).Driver, dir}, nil
		}
		serve.Serve(slow)
	},
	"loud": func() {
		go func() {
			for {
				fmt.Fprintln(os.Stderr, strings.Repeat("loud ", 200))
			}
		}()
		serve.Serve(good)
	},
	"exits":   func() { fmt.Fprintln(os.Stderr, "no license"); os.Exit(3) },
	"garbage": func() { fmt.Println(strings.Repeat("\x00\xff|", 5000)); select {} },
	"silent":  func() { time.Sleep(time.Hour) },
	"version": func() { fmt.Println("1|99|unix|/tmp/x|grpc|"); time.Sleep(time.Hour) },
	"address": func() { fmt.Println("1|1|unix|/no/such.sock|grpc|"); time.Sleep(time.Hour) },
	"name": func() {
		other := good
		other.Name = "other"
		serve.Serve(other)
	},
	"config": func() {
		serve.Serve(serve.Plugin{Name: rawexec.Name, Capabilities: good.Capabilities, New: newRawExec})
	},
	"hangs": func() { serveHostile(func() (*protocol.InfoResponse, error) { select {} }) },
	"schema": func() {
		deep := &schema.Schema{Attributes: []*schema.Attribute{{Name: "x", Type: schema.Type_TYPE_BLOCK}}}
		deep.Attributes[0].Block = &schema.Schema{Attributes: []*schema.Attribute{{Name: "y\" z", Type: 77}}}
		serveHostile(func() (*protocol.InfoResponse, error) {
			return &protocol.InfoResponse{Name: rawexec.Name, Capabilities: &protocol.Capabilities{Isolation: "none"}, TaskConfig: deep}, nil
		})
	},
}

func newDriver(t *testing.T, play, stateDir string) *external.Driver {
	t.Helper()
	return newLoggedDriver(t, play, stateDir, hclog.NewNullLogger())
}

func newLoggedDriver(t *testing.T, play, stateDir string, log hclog.Logger) *external.Driver {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("raw_exec needs root")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	timeout := time.Minute
	if play != "good" && play != "late" && play != "loud" {
		timeout = 3 * time.Second
	}
	d := external.New(external.Config{
		Name: rawexec.Name, Path: self, Args: []string{play, stateDir}, Config: map[string]any{"program": program}, StateDir: stateDir, Timeout: timeout,
	}, log)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func sh(script string) map[string]any {
	return map[string]any{"command": "/bin/sh", "args": []any{"-c", script}}
}

func command(script string) []string { return []string{"/bin/sh", "-c", script} }

func TestContract(t *testing.T) {
	var dirs sync.Map
	suite.Run(t, suite.Harness{
		New: func(t *testing.T) driver.Driver {
			dir, known := dirs.Load(t.Name())
			if !known {
				dir = t.TempDir()
				dirs.Store(t.Name(), dir)
			}
			return newDriver(t, "good", dir.(string))
		},
		Sleep:     map[string]any{"command": "sleep", "args": []any{"1000"}},
		Stubborn:  sh(`trap '' INT TERM; echo ready; while :; do sleep 1000; done`),
		Exit7:     sh(`exit 7`),
		Killed:    sh(`kill -9 $$`),
		Print:     sh(`echo out; echo err >&2`),
		Missing:   map[string]any{"command": "no-such-program"},
		Flood:     sh(`exec tr '\0' x </dev/zero`),
		ReadMount: sh(`cat data/hello`),
		Commands: suite.Commands{
			Print:   command(`echo out; echo err >&2`),
			Exit7:   command(`exit 7`),
			Killed:  command(`kill -9 $$`),
			Copy:    []string{"cat"},
			Sleep:   []string{"/bin/sleep", "1000"},
			Missing: []string{"no-such-program"},
			Family:  command(`sleep 1000 & echo $!; wait`),
			Size:    command(`while read line; do stty size; done`),
		},
		Bad:     map[string]any{"command": "x", "no_such_key": "x"},
		BadKey:  "no_such_key",
		Durable: true,
		Logs:    true,
	})
}

// processOf finds the process of a driver by its state directory among its arguments.
func processOf(t *testing.T, stateDir string) (pid int) {
	t.Helper()
	suite.Eventually(t, "a process of the driver runs", func() bool {
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, f := range files {
			if b, err := os.ReadFile(f); err == nil && bytes.HasSuffix(b, []byte("\x00"+stateDir+"\x00")) {
				pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(f)))
				return true
			}
		}
		return false
	})
	return pid
}

func reports(t *testing.T, d *external.Driver) <-chan driver.Fingerprint {
	t.Helper()
	ch, err := d.Fingerprint(suite.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func TestTasksOutliveTheProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := newDriver(t, "good", dir)
	ch := reports(t, d)
	if f := <-ch; f.Health != driver.Healthy {
		t.Fatalf("%+v", f)
	}
	task, events := suite.NewTask(t, sh(`while [ ! -e end ]; do sleep 0.01; done; exit 5`)), make(chan string, 1)
	task.Event = func(text string) { events <- text }
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	if text := <-events; text != "it starts" {
		t.Errorf("event %q", text)
	}
	before, err := d.Inspect(task.ID)
	if err != nil {
		t.Fatal(err)
	}
	exit := make(chan *driver.Exit, 1)
	go func() {
		x, err := d.Wait(suite.Context(t), task.ID)
		if err != nil {
			t.Error(err)
		}
		exit <- x
	}()
	if err := syscall.Kill(processOf(t, dir), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if f := <-ch; f.Health != driver.Unhealthy || !strings.Contains(f.Description, "it is started again") {
		t.Errorf("report of the end: %+v", f)
	}
	if _, err := d.Stats(suite.Context(t), task.ID); err != nil && !errors.Is(err, fault.Unavailable) {
		t.Error(err)
	}
	if f := <-ch; f.Health != driver.Healthy {
		t.Errorf("report of the next process: %+v", f)
	}
	if after, err := d.Inspect(task.ID); err != nil || after.State != driver.StateRunning || after.Attributes["pid"] != before.Attributes["pid"] {
		t.Errorf("task: %+v %v, was %+v", after, err, before)
	}
	if err := os.WriteFile(filepath.Join(task.Dir, "end"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if x := <-exit; x == nil || x.Code != 5 {
		t.Errorf("exit %+v", x)
	}
	if err := d.Destroy(suite.Context(t), task.ID); err != nil {
		t.Error(err)
	}
}

func TestTaskThatStartsAfterItsCallerHasLeftIsDestroyed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := newDriver(t, "late", dir)
	task := suite.NewTask(t, sh(`echo $$ >pid; exec sleep 1000`))
	ctx, cancel := context.WithCancel(suite.Context(t))
	begun := make(chan error, 1)
	if f := <-reports(t, d); f.Health != driver.Healthy {
		t.Fatalf("%+v", f)
	}
	go func() {
		_, err := d.Start(ctx, task)
		begun <- err
	}()
	time.AfterFunc(100*time.Millisecond, cancel)
	if err := <-begun; !errors.Is(err, context.Canceled) {
		t.Fatalf("start: %v", err)
	}
	suite.Eventually(t, "the process is asked to destroy the task", func() bool {
		_, err := os.Stat(filepath.Join(dir, "asked"))
		return err == nil
	})
	if _, err := d.Start(suite.Context(t), task); !errors.Is(err, fault.Unavailable) {
		t.Errorf("start concurrent with one without a result: %v", err)
	}
	if err := os.WriteFile(filepath.Join(task.Dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the task starts and ends", func() bool {
		b, _ := os.ReadFile(filepath.Join(task.Dir, "pid"))
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		return err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	})
}

// counter counts what is written.
type counter struct{ n atomic.Int64 }

func (c *counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}

func TestLoudProcessDoesNotFillTheLog(t *testing.T) {
	t.Parallel()
	var log counter
	begun := time.Now()
	d := newLoggedDriver(t, "loud", t.TempDir(), hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: &log}))
	task := suite.NewTask(t, sh(`exit 7`))
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	if x, err := d.Wait(suite.Context(t), task.ID); err != nil || x.Code != 7 {
		t.Errorf("exit %+v %v", x, err)
	}
	suite.Eventually(t, "the process logs", func() bool { return log.n.Load() > 1<<20 })
	if n, most := log.n.Load(), int64(3<<20+128<<10*(int(time.Since(begun).Seconds())+1)); n > most {
		t.Errorf("%d bytes are logged, want at most %d", n, most)
	}
}

func TestSocketsOfAKilledAgentAreRemoved(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 20))
	left := filepath.Join(os.TempDir(), "nomad-plugin-sockets-TEST"+strconv.Itoa(os.Getpid()))
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.Mkdir(left, 0o700), os.Symlink(left, filepath.Join(dir, "sockets-TEST"))); err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, "good", dir)
	if f := <-reports(t, d); f.Health != driver.Healthy {
		t.Fatalf("%+v", f)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("sockets of another process: %v", err)
	}
	links, _ := filepath.Glob(filepath.Join(dir, "sockets-*"))
	if len(links) != 1 {
		t.Fatalf("links %v, want one", links)
	}
	own, err := os.Readlink(links[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(own); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("sockets after the end: %v", err)
	}
}

func TestLostTaskHasAnExit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := newDriver(t, "good", dir)
	task := suite.NewTask(t, sh(`exec sleep 1000`))
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	st, err := d.Inspect(task.ID)
	if err != nil {
		t.Fatal(err)
	}
	pids := []int{processOf(t, dir)}
	for _, key := range []string{"supervisor_pid", "pid"} {
		pid, _ := strconv.Atoi(st.Attributes[key])
		pids = append(pids, pid)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
	if x, err := d.Wait(suite.Context(t), task.ID); err != nil || x.Successful() || x.Err == "" {
		t.Errorf("exit %+v %v", x, err)
	}
	if err := errors.Join(d.Stop(suite.Context(t), task.ID, "", 0), d.Destroy(suite.Context(t), task.ID)); err != nil {
		t.Error(err)
	}
}

func TestHostileProcesses(t *testing.T) {
	t.Parallel()
	for play, want := range map[string]string{
		"exits": "does not speak the protocol", "garbage": "does not speak the protocol", "silent": "timeout", "version": "ncompatible API version",
		"address": "no such file", "name": `name the executable nomad-driver-other`, "config": `"program" is not known`, "hangs": "deadline", "schema": "attribute",
	} {
		t.Run(play, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t, play, t.TempDir())
			f := <-reports(t, d)
			if f.Health != driver.Unhealthy || !strings.Contains(f.Description, want) || strings.ContainsAny(f.Description, "\n\x00") {
				t.Errorf("report %+v, want %q", f, want)
			}
			if _, err := d.Start(suite.Context(t), suite.NewTask(t, sh("exit 0"))); !errors.Is(err, fault.Unavailable) {
				t.Errorf("start: %v, want unavailable", err)
			}
		})
	}
}

func TestProcessEndsWithTheDriver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := newDriver(t, "good", dir)
	if f := <-reports(t, d); f.Health != driver.Healthy {
		t.Fatalf("%+v", f)
	}
	pid := processOf(t, dir)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the process ends", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	if _, err := d.Wait(suite.Context(t), "x"); !errors.Is(err, fault.Unavailable) && !errors.Is(err, context.Canceled) {
		t.Errorf("wait: %v", err)
	}
}
