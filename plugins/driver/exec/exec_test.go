package exec_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/exec"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/build"
)

var program string

func TestMain(m *testing.M) {
	if os.Getenv(probeEnv) != "" {
		os.Exit(probe())
	}
	dir, err := os.MkdirTemp("", "exec")
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

func newDriver(t *testing.T, stateDir string, config map[string]any, change ...func(*exec.Config)) *exec.Driver {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("exec needs root")
	}
	c, err := exec.ParseConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c.StateDir, c.Program = stateDir, program
	for _, f := range change {
		f(&c)
	}
	return exec.New(c, hclog.NewNullLogger())
}

func sh(script string) map[string]any {
	return map[string]any{"command": "/bin/sh", "args": []any{"-c", script}}
}

func command(script string) []string { return []string{"/bin/sh", "-c", script} }

// self prints what a command has from its task. The shell sets variables of its own.
const self = `id; pwd; ls /; grep -e Cap -e Seccomp: -e NoNewPrivs /proc/self/status
for n in mnt pid ipc uts; do readlink /proc/self/ns/$n; done; env | grep -v -e ^_= -e ^PWD= -e ^OLDPWD= -e ^SHLVL= | sort; echo end`

func harness(config map[string]any, change ...func(*exec.Config)) suite.Harness {
	var dirs sync.Map
	return suite.Harness{
		New: func(t *testing.T) driver.Driver {
			dir, known := dirs.Load(t.Name())
			if !known {
				dir = t.TempDir()
				dirs.Store(t.Name(), dir)
			}
			return newDriver(t, dir.(string), config, change...)
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
			Print:    command(`echo out; echo err >&2`),
			Exit7:    command(`exit 7`),
			Killed:   command(`kill -9 $$`),
			Copy:     []string{"cat"},
			Sleep:    []string{"/bin/sleep", "1000"},
			Missing:  []string{"no-such-program"},
			Leave:    command(`echo before; sleep 1000 & exit 3`),
			Size:     command(`while read line; do stty size; done`),
			Self:     command(self),
			SelfTask: sh(self + `; sleep 1000`),
		},
		Bad:     map[string]any{"command": "x", "cgroup_v2_override": "x"},
		BadKey:  "cgroup_v2_override",
		Durable: true,
		Logs:    true,
	}
}

func TestContract(t *testing.T) { suite.Run(t, harness(nil)) }

func TestContractWithModesOfTheHost(t *testing.T) {
	h := harness(map[string]any{"default_pid_mode": "host", "default_ipc_mode": "host"})
	// These print pids, which are not those of the host otherwise.
	h.Family = sh(`setsid sh -c 'echo $$; exec sleep 1000' & wait`)
	h.Commands.Family = command(`setsid sh -c 'sleep 1000 & echo $!; wait' & wait`)
	suite.Run(t, h)
}

func TestContractWithoutCgroups(t *testing.T) {
	suite.Run(t, harness(nil, func(c *exec.Config) { c.NoCgroups = true }))
}
