// Package kit starts real agents for end-to-end tests and asks them about jobs, volumes and mounts.
package kit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

// Agent is one running agent, server and client in one.
type Agent struct {
	API    *api.Client
	Dir    string
	Binary string

	tb      testing.TB
	config  string
	process *exec.Cmd
	ended   chan struct{}
	log     *os.File
	clock   *Clock
	ports   []int
	foreign foreign
	acl     bool // runs with access control
}

// Start builds a data directory and starts an agent in it, and waits until its node is ready. The agent and all that it
// left are removed when the test ends.
func Start(tb testing.TB) *Agent {
	tb.Helper()
	a := Prepare(tb)
	a.Launch()
	return a
}

// Prepare is Start without starting the agent.
func Prepare(tb testing.TB) *Agent {
	tb.Helper()
	return prepare(tb, ACL)
}

// PrepareGuarded is Prepare with access control.
func PrepareGuarded(tb testing.TB) *Agent {
	tb.Helper()
	return prepare(tb, true)
}

// lean is the configuration of a node that does not run the programs of drivers and plugins which no test uses: with them the
// start of an agent costs twice the processor time. Agents of [StartDev] do without it.
const lean = `
client {
  cni_path = "/nonexistent"
  options = {
    "driver.denylist" = "java,qemu"
  }
}`

func prepare(tb testing.TB, acl bool) *Agent {
	tb.Helper()
	if os.Getuid() != 0 {
		tb.Skip("real mounts need root")
	}
	bin := binary(tb)
	// Short, because unix socket paths are.
	dir, err := os.MkdirTemp("", "e2e")
	if err != nil {
		tb.Fatal(err)
	}
	web, rpc := FreePort(tb), FreePort(tb)
	a := &Agent{Dir: dir, Binary: bin, tb: tb, config: filepath.Join(dir, "agent.hcl"), ports: []int{web, rpc}, acl: acl}
	body := fmt.Sprintf(`
data_dir = %q
bind_addr = "127.0.0.1"
log_level = "DEBUG"
ports {
  http = %d
  rpc = %d
  serf = 0
}
server {
  enabled = true
  bootstrap_expect = 1
}
client {
  enabled = true
  gc_interval = "1h"
}
plugin "raw_exec" {
  config {
    enabled = true
  }
}%s%s`, filepath.Join(dir, "data"), web, rpc, lean, access(acl))
	if err := os.WriteFile(a.config, []byte(body), 0o600); err != nil {
		tb.Fatal(err)
	}
	a.API, err = api.NewClient(&api.Config{Address: fmt.Sprintf("http://127.0.0.1:%d", web), SecretID: token(acl)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(a.remove)
	return a
}

func binary(tb testing.TB) string {
	tb.Helper()
	bin := os.Getenv("NOMAD_BIN")
	if bin == "" {
		tb.Skip("NOMAD_BIN does not name the binary: run make e2e")
	}
	return bin
}

// FreePort returns a free port of loopback. The system hands none like it to connections, and this function
// to no other test before this one ends, so that it is still free when what used it starts again.
func FreePort(tb testing.TB) int {
	tb.Helper()
	const first, count = 10_000, 10_000
	for range 100 {
		port := first + rand.IntN(count)
		hold, err := net.Listen("unix", fmt.Sprintf("@open-nomad-e2e-port-%d", port)) // tests of other processes see it too
		if err != nil {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = l.Close()
			tb.Cleanup(func() { _ = hold.Close() })
			return port
		}
		_ = hold.Close()
	}
	tb.Fatal("no port of loopback is free")
	return 0
}

// StartDev starts a development agent, whose data is in a temporary directory below its directory Tmp.
func StartDev(tb testing.TB) *Agent {
	tb.Helper()
	if os.Getuid() != 0 {
		tb.Skip("real mounts need root")
	}
	a := &Agent{Binary: binary(tb), tb: tb, acl: ACL}
	var err error
	if a.Dir, err = os.MkdirTemp("", "e2e"); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(a.remove)
	web := FreePort(tb)
	a.config = filepath.Join(a.Dir, "agent.hcl")
	body := fmt.Sprintf("ports {\n  http = %d\n  rpc = %d\n  serf = 0\n}%s", web, FreePort(tb), access(ACL))
	if err := errors.Join(os.WriteFile(a.config, []byte(body), 0o600), os.Mkdir(a.Tmp(), 0o700)); err != nil {
		tb.Fatal(err)
	}
	if a.API, err = api.NewClient(&api.Config{Address: fmt.Sprintf("http://127.0.0.1:%d", web), SecretID: Token()}); err != nil {
		tb.Fatal(err)
	}
	a.spawn("env", "TMPDIR="+a.Tmp(), a.Binary, "agent", "-dev", "-config", a.config)
	a.Ready(1)
	return a
}

// Tmp is where a development agent makes its temporary directory.
func (a *Agent) Tmp() string { return filepath.Join(a.Dir, "t") }

// Launch starts the agent's process and waits until it leads and its node is ready.
func (a *Agent) Launch() {
	a.tb.Helper()
	a.Spawn()
	a.Ready(1)
}

// Spawn starts the agent's process and waits for nothing.
func (a *Agent) Spawn() {
	a.tb.Helper()
	a.spawn(a.Binary, "agent", "-config", a.config)
}

// spawn starts the agent's process with its output in the log.
func (a *Agent) spawn(command string, args ...string) {
	a.tb.Helper()
	log, err := os.OpenFile(filepath.Join(a.Dir, "agent.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		a.tb.Fatal(err)
	}
	a.log = log
	a.process = exec.Command(command, args...)
	a.process.Stdout, a.process.Stderr = log, log
	a.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	start := a.process.Start
	if a.clock != nil {
		a.process.SysProcAttr.Ptrace = true
		start = func() error { return a.clock.begin(a.process.Start) }
	}
	if err := start(); err != nil {
		if a.process.Process == nil {
			a.process = nil
		}
		a.tb.Fatal(err)
	}
	a.ended = make(chan struct{})
	go func(p *exec.Cmd, ended chan struct{}) { _ = p.Wait(); close(ended) }(a.process, a.ended)
	a.bootstrap()
}

// Ready waits until the agent knows n nodes and all are ready.
func (a *Agent) Ready(n int) time.Duration {
	a.tb.Helper()
	return a.Until(20*time.Second, "ready nodes", func() error {
		nodes, _, err := a.API.Nodes().List(nil)
		if err != nil {
			return err
		}
		ready := 0
		for _, node := range nodes {
			if node.Status == "ready" {
				ready++
			}
		}
		if ready != n || len(nodes) != n {
			return fmt.Errorf("%d of %d nodes are ready, want %d", ready, len(nodes), n)
		}
		return nil
	})
}

// PID is the agent's process id.
func (a *Agent) PID() int { return a.process.Process.Pid }

// Kill ends the agent as kill -9 does; its tasks go on.
func (a *Agent) Kill() {
	_ = a.process.Process.Kill()
	<-a.ended
	_ = a.log.Close()
	// What it was just beginning has its command line, and its ports, until it has executed its own program.
	a.Until(hang, "its last process to have begun", func() error {
		all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range all {
			if line, err := os.ReadFile(file); err == nil && bytes.HasSuffix(line, []byte("agent\x00-config\x00"+a.config+"\x00")) {
				return fmt.Errorf("%s is still the agent", filepath.Dir(file))
			}
		}
		for _, port := range a.ports {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				return err // what is executed has no command line for a moment, and the ports still
			}
			_ = l.Close()
		}
		return nil
	})
}

// Terminate asks the agent to end, waits for that and returns its exit code.
func (a *Agent) Terminate(limit time.Duration) int {
	a.tb.Helper()
	_ = a.process.Process.Signal(syscall.SIGTERM)
	limit = max(limit, hang)
	select {
	case <-a.ended:
	case <-time.After(limit):
		a.tb.Fatalf("the agent runs on %v after SIGTERM\n%s", limit, a.LogTail(40))
	}
	return a.process.ProcessState.ExitCode()
}

// hang is how long anything may take on a machine that others use too; bars on the time itself are kept by who measures.
const hang = 60 * time.Second

// Until asks every 20 ms until check returns nil, or fails the test after the limit, which is at least a minute. After a
// second it asks every 50 ms: replies cost the agents processor time that other tests need.
func (a *Agent) Until(limit time.Duration, what string, check func() error) time.Duration {
	a.tb.Helper()
	limit = max(limit, hang)
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	slower := false
	for {
		err := check()
		if err == nil {
			return time.Since(began)
		}
		select {
		case <-ctx.Done():
			a.tb.Fatalf("waited %v for %s: %v\n%s", limit, what, err, a.LogTail(40))
		case <-tick.C:
		}
		if !slower && time.Since(began) > time.Second {
			slower = true
			tick.Reset(50 * time.Millisecond)
		}
	}
}

// LogTail is the end of the agent's log, without the requests of the tests.
func (a *Agent) LogTail(lines int) string {
	body, _ := os.ReadFile(filepath.Join(a.Dir, "agent.log"))
	all := slices.DeleteFunc(strings.Split(string(bytes.TrimSpace(body)), "\n"), func(line string) bool {
		return strings.Contains(line, "http: request: method=")
	})
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Command is the command line with the address of the agent, and the management token if it has access control.
func (a *Agent) Command(args ...string) *exec.Cmd {
	cmd := exec.Command(a.Binary, args...)
	cmd.Env = append(os.Environ(), "NOMAD_ADDR="+a.API.Address(), "NOMAD_TOKEN="+token(a.acl))
	return cmd
}

// Run runs the command line against the agent and returns its output and exit code.
func (a *Agent) Run(args ...string) (string, int) {
	out, err := a.Command(args...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(out), exit.ExitCode()
	}
	if err != nil {
		return err.Error(), -1
	}
	return string(out), 0
}

// remove ends everything that belongs to the agent's directory.
func (a *Agent) remove() {
	if a.process != nil {
		a.wokeAll()
	}
	if a.tb.Failed() {
		a.tb.Logf("end of the agent's log:\n%s", a.LogTail(60))
	}
	if a.process != nil {
		select {
		case <-a.ended:
		default:
			a.Kill()
		}
	}
	a.clean()
}

// clean ends the processes of the agent's directory, takes its mounts away and removes it.
func (a *Agent) clean() {
	a.endProcesses()
	for range 3 {
		mounts := a.Mounts()
		for i := len(mounts) - 1; i >= 0; i-- {
			_ = syscall.Unmount(mounts[i], syscall.MNT_DETACH)
		}
	}
	if len(a.Mounts()) == 0 {
		a.removeCgroups()
		_ = os.RemoveAll(a.Dir)
	}
}

// removeCgroups removes those of the tasks whose supervising processes were killed before they could: they have the names of
// their files.
func (a *Agent) removeCgroups() {
	_ = filepath.WalkDir(a.Dir, func(path string, _ fs.DirEntry, _ error) error {
		name, ok := strings.CutSuffix(filepath.Base(path), ".lock")
		if !ok {
			return nil
		}
		for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpuset", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids"} {
			_ = os.Remove(filepath.Join(root, "nomad.slice", name+".scope"))
		}
		return nil
	})
}

// endProcesses kills what belongs to the agent's directory, and supervising processes that stay because they cannot
// record an exit: only their open files identify the task.
func (a *Agent) endProcesses() {
	for range 50 {
		pids := a.processes(func(pid int) bool { return a.owns(pid) || a.holds(pid) })
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		<-time.After(20 * time.Millisecond)
	}
}
