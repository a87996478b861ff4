package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/external"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/build"
)

func TestContract(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the driver needs root")
	}
	bin := t.TempDir()
	supervisor, err := build.Program(context.Background(), bin)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(bin, "nomad-driver-shell")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	script := func(text string) map[string]any { return map[string]any{"script": text} }
	var dirs sync.Map
	suite.Run(t, suite.Harness{
		New: func(t *testing.T) driver.Driver {
			dir, known := dirs.Load(t.Name())
			if !known {
				dir = t.TempDir()
				dirs.Store(t.Name(), dir)
			}
			d := external.New(external.Config{
				Name: name, Path: path, StateDir: fmt.Sprint(dir), Config: map[string]any{"supervisor": supervisor},
			}, hclog.NewNullLogger())
			t.Cleanup(func() { _ = d.Close() })
			return d
		},
		Sleep:     script(`exec sleep 1000`),
		Stubborn:  script(`trap '' INT TERM; echo ready; while :; do sleep 1000; done`),
		Exit7:     script(`exit 7`),
		Killed:    script(`kill -9 $$`),
		Print:     script(`echo out; echo err >&2`),
		ReadMount: script(`cat data/hello`),
		Commands:  suite.Commands{Copy: []string{"cat"}, Missing: []string{"no-such-program"}},
		Bad:       map[string]any{"script": "x", "no_such_key": "x"},
		BadKey:    "no_such_key",
		Durable:   true,
		Logs:      true,
	})
}
