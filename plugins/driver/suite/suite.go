package suite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// Harness defines how to make the driver and its tasks. Each config is that of one task.
type Harness struct {
	// New makes a driver instance over the same durable state as the instances before it.
	New func(t *testing.T) driver.Driver

	// Sleep runs until it is ordered to end by the driver's default signal or SIGTERM.
	Sleep map[string]any
	// Stubborn runs indefinitely, ignores SIGINT and SIGTERM, and prints "ready" when it does.
	Stubborn map[string]any
	// Exit7 ends at once with code 7.
	Exit7 map[string]any
	// Killed ends by its own SIGKILL.
	Killed map[string]any
	// Print writes "out" to standard output, "err" to standard error, each as a line, and ends with code 0.
	Print map[string]any
	// Flood prints at full speed, without newlines, until it is killed.
	Flood map[string]any
	// Missing names a program that does not exist, or another cause for which no start can work.
	Missing map[string]any
	// Family prints the pid of a child in a session of its own, as a line, and waits for it.
	Family map[string]any
	// ReadMount prints the file "hello" of the mount at data.
	ReadMount map[string]any
	// Commands are those that can be run inside a task, which is one of Sleep unless a test names another.
	Commands Commands
	// Bad is a config that does not validate, and BadKey the key that the error must name.
	Bad    map[string]any
	BadKey string
	// Durable is set when tasks outlive the driver instance.
	Durable bool
	// Logs is set when the driver writes log files.
	Logs bool
}

// Commands are programs with their arguments for tests of [driver.Execer]. What the driver cannot do is nil.
type Commands struct {
	// Print writes "out" to standard output, "err" to standard error, each as a line.
	Print []string
	// Exit7 ends with code 7, Killed by its own SIGKILL.
	Exit7, Killed []string
	// Copy copies its input to its output until the end of the input.
	Copy []string
	// Sleep runs as long as the task.
	Sleep []string
	// Missing has no such program.
	Missing []string
	// Family prints the pid of a child in a session of its own, as the host counts, as a line, and waits for it.
	Family []string
	// Leave starts a child that keeps the output open, and ends without it.
	Leave []string
	// Size prints the rows and columns of its terminal, as a line, after each line of its input.
	Size []string
	// Self prints its environment, working directory, ids and cgroups. SelfTask is a task that prints the same and stays.
	Self     []string
	SelfTask map[string]any
}

const limit = time.Minute

// Run runs the contract.
func Run(t *testing.T, h Harness) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, *bench)
		when bool
	}{
		{"FingerprintComesAtOnce", fingerprint, true},
		{"FingerprintEndsWithContext", fingerprintEnds, true},
		{"ConfigIsValidated", validate, h.Bad != nil},
		{"ExitCode", exitCode, h.Exit7 != nil},
		{"ExitBySignal", exitBySignal, h.Killed != nil},
		{"StartFailureLeavesNothing", startFailure, h.Missing != nil},
		{"SecondStartIsRefused", secondStart, h.Sleep != nil},
		{"WaitEndsWithContext", waitEnds, h.Sleep != nil},
		{"StopBySignal", stopBySignal, h.Sleep != nil},
		{"StopTwice", stopTwice, h.Sleep != nil},
		{"StopEndsInSpiteOfAnUnknownSignal", stopBadSignal, h.Sleep != nil},
		{"StopEscalates", stopEscalates, h.Stubborn != nil},
		{"StopEndsWithContext", stopEnds, h.Stubborn != nil},
		{"WholeTreeEnds", wholeTree, h.Family != nil},
		{"DestroyKills", destroyKills, h.Sleep != nil},
		{"UnknownTaskIsNotFound", unknown, true},
		{"Inspect", inspect, h.Sleep != nil},
		{"Stats", stats, h.Sleep != nil},
		{"Signal", signal, h.Sleep != nil},
		{"OutputIsKept", output, h.Print != nil && h.Logs},
		{"FloodOfOutputIsBounded", flood, h.Flood != nil && h.Logs},
		{"MountIsSeen", mount, h.ReadMount != nil},
		{"CommandOutput", commandOutput, h.Commands.Print != nil},
		{"CommandExitCode", commandExit, h.Commands.Exit7 != nil},
		{"CommandInput", commandInput, h.Commands.Copy != nil},
		{"CommandManyBytes", commandManyBytes, h.Commands.Copy != nil},
		{"CommandWriterFails", commandWriterFails, h.Commands.Copy != nil},
		{"CommandOnTerminal", commandTerminal, h.Commands.Size != nil},
		{"CommandIsAsTheTask", commandSelf, h.Commands.Self != nil},
		{"CommandRefused", commandRefused, h.Commands.Missing != nil},
		{"CommandEndsWithContext", commandEndsWithContext, h.Commands.Sleep != nil},
		{"CommandTreeEndsWithContext", commandTree, h.Commands.Family != nil},
		{"CommandEndsWithTask", commandEndsWithTask, h.Commands.Sleep != nil},
		{"CommandLeavesChild", commandLeaves, h.Commands.Leave != nil},
		{"CommandsTogether", commandsTogether, h.Commands.Copy != nil},
		{"CommandAfterRecovery", commandRecovered, h.Durable && h.Commands.Copy != nil},
		{"RecoverRunning", recoverRunning, h.Durable && h.Sleep != nil},
		{"RecoverExited", recoverExited, h.Durable && h.Exit7 != nil},
		{"RecoverDestroyed", recoverDestroyed, h.Durable && h.Sleep != nil},
		{"RecoverForeignHandle", recoverForeign, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !c.when {
				t.Skip("not a feature of this driver")
			}
			t.Parallel()
			c.run(t, &bench{h: h, d: h.New(t)})
		})
	}
}

// bench is what one test works with.
type bench struct {
	h Harness
	d driver.Driver
}

// allocID is that of all tasks of this process. Tasks of one id share a cgroup: those of another run of the same test
// on this host must not be ended by it.
var allocID = fmt.Sprintf("%08x", rand.Uint32())

// NewTask makes a task with directories of its own.
func NewTask(t *testing.T, config map[string]any) *driver.Task {
	t.Helper()
	root := t.TempDir()
	task := &driver.Task{
		ID: allocID + "/" + t.Name(), AllocID: allocID, Name: "web", JobID: "job", Config: config,
		Dir: filepath.Join(root, "web"), AllocDir: filepath.Join(root, "alloc"),
		Env:  map[string]string{"PATH": os.Getenv("PATH")},
		Logs: driver.Logs{Dir: filepath.Join(root, "alloc", "logs"), MaxFiles: 3, MaxFileSizeMB: 1},
	}
	for _, dir := range []string{task.Dir, task.Logs.Dir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return task
}

// Context is the test's context with a bound.
func Context(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// Eventually waits until the condition holds.
func Eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(limit); ; {
		if holds() {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("never came: %s", what)
		}
	}
}

func (b *bench) start(t *testing.T, config map[string]any) (*driver.Task, *driver.Handle) {
	t.Helper()
	task := NewTask(t, config)
	return task, b.startTask(t, task)
}

func (b *bench) startTask(t *testing.T, task *driver.Task) *driver.Handle {
	t.Helper()
	h, err := b.d.Start(Context(t), task)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		_ = b.d.Destroy(ctx, task.ID)
	})
	return h
}

func (b *bench) wait(t *testing.T, id string) *driver.Exit {
	t.Helper()
	x, err := b.d.Wait(Context(t), id)
	if err != nil {
		t.Fatalf("wait: %v", err)
	}
	return x
}

// LogText returns what a stream of a task holds now.
func LogText(task *driver.Task, kind string) string {
	b, err := os.ReadFile(filepath.Join(task.Logs.Dir, task.Name+"."+kind+".0"))
	if err != nil {
		return ""
	}
	return string(b)
}

func mustNotFind(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, fault.NotFound) {
		t.Errorf("%s of an unknown task: %v, want not found", what, err)
	}
}

func line(s string) (string, bool) {
	before, _, whole := strings.Cut(s, "\n")
	return before, whole
}
