package rawexec_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/build"
)

var program string

func TestMain(m *testing.M) {
	if os.Getenv(agentEnv) != "" {
		os.Exit(agentMain())
	}
	if os.Getenv(threadEnv) != "" {
		os.Exit(threadMain())
	}
	if os.Args[0] == supervisorName {
		os.Exit(muteMain())
	}
	dir, err := os.MkdirTemp("", "rawexec")
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

func newDriver(t testing.TB, stateDir string, change ...func(*rawexec.Config)) *rawexec.Driver {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("raw_exec needs root")
	}
	c := rawexec.Config{Enabled: true, StateDir: stateDir, Program: program}
	for _, f := range change {
		f(&c)
	}
	return rawexec.New(c, hclog.NewNullLogger())
}

func sh(script string) map[string]any {
	return map[string]any{"command": "/bin/sh", "args": []any{"-c", script}}
}

func command(script string) []string { return []string{"/bin/sh", "-c", script} }

// self prints what a command has from its task. The shell sets variables of its own.
const self = `env | sort | grep -v ^_=; pwd; id; cat /proc/self/cgroup; cat /proc/self/oom_score_adj; grep Cpus_allowed_list /proc/self/status; readlink /proc/self/ns/mnt; ls /proc/self/fd; echo end`

func harness(change ...func(*rawexec.Config)) suite.Harness {
	var dirs sync.Map
	return suite.Harness{
		New: func(t *testing.T) driver.Driver {
			dir, known := dirs.Load(t.Name())
			if !known {
				dir = t.TempDir()
				dirs.Store(t.Name(), dir)
			}
			return newDriver(t, dir.(string), change...)
		},
		Sleep:     map[string]any{"command": "sleep", "args": []any{"1000"}},
		Stubborn:  sh(`trap '' INT TERM; echo ready; while :; do sleep 1000; done`),
		Exit7:     sh(`exit 7`),
		Killed:    sh(`kill -9 $$`),
		Print:     sh(`echo out; echo err >&2`),
		Missing:   map[string]any{"command": "no-such-program"},
		Family:    sh(`setsid sh -c 'echo $$; exec sleep 1000' & wait`),
		Flood:     sh(`exec tr '\0' x </dev/zero`),
		ReadMount: sh(`cat data/hello`),
		Commands: suite.Commands{
			Print:    command(`echo out; echo err >&2`),
			Exit7:    command(`exit 7`),
			Killed:   command(`kill -9 $$`),
			Copy:     []string{"cat"},
			Sleep:    []string{"/bin/sleep", "1000"},
			Missing:  []string{"no-such-program"},
			Family:   command(`(setsid sh -c 'sleep 1000 & echo $!' &); sleep 1000`),
			Leave:    command(`echo before; sleep 1000 & exit 3`),
			Size:     command(`while read line; do stty size; done`),
			Self:     command(self),
			SelfTask: sh(self + `; sleep 1000`),
		},
		Bad:     map[string]any{"command": "x", "arguments": []any{}},
		BadKey:  "arguments",
		Durable: true,
		Logs:    true,
	}
}

func TestContract(t *testing.T) { suite.Run(t, harness()) }

func TestContractWithoutCgroups(t *testing.T) {
	suite.Run(t, harness(func(c *rawexec.Config) { c.NoCgroups = true }))
}

// bounded is for clean-ups, which run after the test's own context ended.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}
