package docker_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/docker"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/enginetest"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

var (
	shared *enginetest.Engine
	// missing is why there is no engine.
	missing error
)

func TestMain(m *testing.M) {
	code := 1
	dir, err := os.MkdirTemp("", "docker")
	if err == nil {
		shared, err = enginetest.Start(dir)
		if errors.Is(err, enginetest.ErrMissing) {
			missing = err
		}
	}
	if err == nil || missing != nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	if shared != nil {
		if err := shared.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the engine:", err)
			code = 1
		}
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// engine is the engine of all tests.
func engine(t *testing.T) *enginetest.Engine {
	t.Helper()
	if missing != nil {
		t.Skip(missing)
	}
	return shared
}

// newDriver makes a driver with the keys of a plugin block.
func newDriver(t *testing.T, stateDir string, block map[string]any) *docker.Driver {
	t.Helper()
	return driverOf(t, engine(t), stateDir, block)
}

func driverOf(t *testing.T, e *enginetest.Engine, stateDir string, block map[string]any) *docker.Driver {
	t.Helper()
	all := map[string]any{"endpoint": e.Host}
	maps.Copy(all, block)
	c, err := docker.ParseConfig(all)
	if err != nil {
		t.Fatal(err)
	}
	c.StateDir = stateDir
	d := docker.New(c, nullLogger)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// taskConfig is a config block whose container runs a command of the image's program.
func taskConfig(keys map[string]any, args ...any) map[string]any {
	c := map[string]any{"image": enginetest.Image, "network_mode": "none", "args": args}
	maps.Copy(c, keys)
	return c
}

var nullLogger = hclog.NewNullLogger()

var hostPID = map[string]any{"pid_mode": "host"}

// apart gives each task an allocation of its own, whose id is in the name of the container.
type apart struct{ *docker.Driver }

func (d apart) Start(ctx context.Context, t *driver.Task) (*driver.Handle, error) {
	own := *t
	own.AllocID = fmt.Sprintf("%x", sha256.Sum256([]byte(t.ID)))[:16]
	return d.Driver.Start(ctx, &own)
}

func TestContract(t *testing.T) {
	engine(t)
	var dirs sync.Map
	suite.Run(t, suite.Harness{
		New: func(t *testing.T) driver.Driver {
			dir, known := dirs.Load(t.Name())
			if !known {
				dir = t.TempDir() + "/state"
				dirs.Store(t.Name(), dir)
			}
			return apart{newDriver(t, dir.(string), map[string]any{"allowed_modes": map[string]any{"pid": []any{"host"}}})}
		},
		Sleep:     taskConfig(hostPID, "sleep"),
		Stubborn:  taskConfig(nil, "stubborn"),
		Exit7:     taskConfig(nil, "exit", 7),
		Killed:    taskConfig(hostPID, "killed"),
		Print:     taskConfig(nil, "print"),
		Missing:   taskConfig(map[string]any{"entrypoint": []any{"/no-such-program"}}),
		Family:    taskConfig(hostPID, "family"),
		Flood:     taskConfig(nil, "flood"),
		ReadMount: taskConfig(nil, "cat", "/data/hello"),
		Commands: suite.Commands{
			Print:    []string{"/task", "print"},
			Exit7:    []string{"/task", "exit", "7"},
			Killed:   []string{"/task", "killed"},
			Copy:     []string{"/task", "copy"},
			Sleep:    []string{"/task", "sleep"},
			Missing:  []string{"/no-such-program"},
			Family:   []string{"/task", "family"},
			Leave:    []string{"/task", "leave"},
			Size:     []string{"/task", "size"},
			Self:     []string{"/task", "self"},
			SelfTask: taskConfig(map[string]any{"work_dir": "/data"}, "self", "stay"),
		},
		Bad:     map[string]any{"image": "x", "imagine": true},
		BadKey:  "imagine",
		Durable: true,
		Logs:    true,
	})
}

// bounded is for clean-ups, which run after the test's own context ended.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
