package rawexec_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

// agentEnv makes this test binary an agent: it starts the task that the variable holds, prints the handle
// and waits to be killed.
const agentEnv = "RAWEXEC_TEST_AGENT"

type agentOrder struct {
	StateDir, Program string
	Task              *driver.Task
	// Command is run in the task, when it is not nil.
	Command []string
}

func agentMain() int {
	var o agentOrder
	if err := json.Unmarshal([]byte(os.Getenv(agentEnv)), &o); err != nil {
		return 2
	}
	d := rawexec.New(rawexec.Config{Enabled: true, StateDir: o.StateDir, Program: o.Program}, hclog.NewNullLogger())
	h, err := d.Start(context.Background(), o.Task)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(h); err != nil {
		return 1
	}
	if o.Command != nil {
		_, err := d.Exec(context.Background(), o.Task.ID, &driver.Command{Args: o.Command})
		fmt.Fprintln(os.Stderr, err)
	}
	time.Sleep(time.Minute)
	return 0
}

// agentOf makes a process that starts a task.
func agentOf(t *testing.T, stateDir string, task *driver.Task, command ...string) *exec.Cmd {
	t.Helper()
	order, err := json.Marshal(agentOrder{StateDir: stateDir, Program: program, Task: task, Command: command})
	if err != nil {
		t.Fatal(err)
	}
	agent := exec.CommandContext(suite.Context(t), os.Args[0])
	agent.Env = append(os.Environ(), agentEnv+"="+string(order))
	agent.Stderr = os.Stderr
	return agent
}

// startInKilledAgent has another process start a task, and kills that at some time.
func startInKilledAgent(t *testing.T, stateDir string, task *driver.Task, when <-chan struct{}) {
	t.Helper()
	agent := agentOf(t, stateDir, task)
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-when:
	case <-time.After(30 * time.Second):
		t.Error("never came")
	}
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
}

// startInAgent starts a task in another process, kills that with SIGKILL and returns the task's handle.
func startInAgent(t *testing.T, stateDir string, task *driver.Task) *driver.Handle {
	t.Helper()
	return startInAgentThatRuns(t, stateDir, task, nil, "")
}

// startInAgentThatRuns also runs a command in the task, and kills the process when the file of a name exists.
func startInAgentThatRuns(t *testing.T, stateDir string, task *driver.Task, command []string, file string) *driver.Handle {
	t.Helper()
	agent := agentOf(t, stateDir, task, command...)
	out, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	var h driver.Handle
	if err := json.NewDecoder(bufio.NewReader(out)).Decode(&h); err != nil {
		t.Fatal(err)
	}
	if file != "" {
		suite.Eventually(t, "the command runs", func() bool { _, err := os.Stat(file); return err == nil })
	}
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	return &h
}

func TestTaskOutlivesKilledAgent(t *testing.T) {
	stateDir := t.TempDir()
	d := newDriver(t, stateDir)
	task := suite.NewTask(t, sh(`echo begun; while [ ! -e go ]; do sleep 0.01; done; cat data/hello; exit 5`))
	task.Mounts = []driver.Mount{{Source: volume(t, "hello"), Destination: "data"}}
	h := startInAgent(t, stateDir, task)
	if err := d.Recover(suite.Context(t), h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
	if err := os.WriteFile(filepath.Join(task.Dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	x, err := d.Wait(suite.Context(t), task.ID)
	if err != nil || x.Code != 5 {
		t.Errorf("exit %+v %v", x, err)
	}
	if out := suite.LogText(task, "stdout"); out != "begun\nhello\n" {
		t.Errorf("output %q", out)
	}
}

func TestExitWithoutAgentIsKept(t *testing.T) {
	stateDir := t.TempDir()
	d := newDriver(t, stateDir)
	task := suite.NewTask(t, sh(`while [ ! -e go ]; do sleep 0.01; done; exit 6`))
	h := startInAgent(t, stateDir, task)
	if err := os.WriteFile(filepath.Join(task.Dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the exit file", func() bool {
		files, _ := filepath.Glob(stateDir + "/*/*.exit")
		return len(files) == 1
	})
	if err := d.Recover(suite.Context(t), h); err != nil {
		t.Fatal(err)
	}
	if x, err := d.Wait(suite.Context(t), task.ID); err != nil || x.Code != 6 {
		t.Errorf("exit %+v %v", x, err)
	}
	if err := d.Destroy(suite.Context(t), task.ID); err != nil {
		t.Error(err)
	}
	if files, _ := filepath.Glob(stateDir + "/*/*"); len(files) != 0 {
		t.Errorf("files left: %v", files)
	}
}

// TestCyclesLeaveNothing counts what is left after many lives: goroutines, descriptors, processes, cgroups.
func TestCyclesLeaveNothing(t *testing.T) {
	d := newDriver(t, t.TempDir())
	before := goleak.IgnoreCurrent()
	fds := openFiles(t)
	source := volume(t, "hello")
	name := filepath.Base(filepath.Dir(t.TempDir())) // of this run alone
	for range 40 {
		task := suite.NewTask(t, sh("sleep 1000 & sleep 1000"))
		task.ID = task.AllocID + "/" + name
		task.Mounts = []driver.Mount{{Source: source, Destination: "/nomad-test-cycle"}}
		if _, err := d.Start(suite.Context(t), task); err != nil {
			t.Fatal(err)
		}
		if err := d.Stop(suite.Context(t), task.ID, "SIGTERM", time.Second); err != nil {
			t.Fatal(err)
		}
		if err := d.Destroy(suite.Context(t), task.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
	if now := openFiles(t); now > fds {
		t.Errorf("%d open files, were %d", now, fds)
	}
	if left, _ := filepath.Glob("/sys/fs/cgroup/*/nomad.slice/*" + name + "*"); len(left) > 0 {
		t.Errorf("cgroups left: %v", left)
	}
	procs, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, p := range procs {
		if cwd, _ := os.Readlink(p); strings.Contains(cwd, name) {
			t.Errorf("process left: %s in %s", p, cwd)
		}
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

func TestCloseLetsTasksRun(t *testing.T) {
	dir := t.TempDir()
	d := newDriver(t, dir)
	before := goleak.IgnoreCurrent()
	task := suite.NewTask(t, sh("exec sleep 1000"))
	h, err := d.Start(suite.Context(t), task)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
	again := newDriver(t, dir)
	if err := again.Recover(suite.Context(t), h); err != nil {
		t.Fatal(err)
	}
	if st, err := again.Inspect(task.ID); err != nil || st.State != driver.StateRunning {
		t.Errorf("%+v %v", st, err)
	}
	if err := again.Destroy(suite.Context(t), task.ID); err != nil {
		t.Error(err)
	}
}
