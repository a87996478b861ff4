package java_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/exec"
	"github.com/open-nomad/open-nomad/plugins/driver/java"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/build"
)

// standIn prints a version as OpenJDK does. It shows its arguments when it gets a class, and executes a jar.
const standIn = `#!/bin/sh
if [ "$1" = -version ]; then
	[ -e "$0.broken" ] && { echo 'Error: no JVM' >&2; exit 1; }
	printf 'Picked up JAVA_TOOL_OPTIONS: -Dx="1"\nopenjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6)\nOpenJDK 64-Bit Server VM (build 17.0.15+6, mixed mode)\n' >&2
	exit
fi
for a in "$@"; do
	shift
	[ "$a" = -jar ] && exec "$@"
	set -- "$@" "$a"
done
pwd
printf '%s\n' "$@"
`

var program, bin string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "java")
	if err == nil {
		program, err = build.Program(context.Background(), dir)
	}
	bin = filepath.Join(dir, "bin")
	if err = errors.Join(err, os.Chmod(dir, 0o755), os.Mkdir(bin, 0o755), os.WriteFile(filepath.Join(bin, "java"), []byte(standIn), 0o755),
		os.Setenv("PATH", bin+":"+os.Getenv("PATH"))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func newDriver(t *testing.T, stateDir string, config map[string]any) *exec.Driver {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("java needs root")
	}
	c, err := java.ParseConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c.StateDir, c.Program = stateDir, program
	c.ChrootEnv = map[string]string{bin: bin}
	for _, path := range exec.DefaultChrootEnv {
		c.ChrootEnv[path] = path
	}
	return java.New(c, hclog.NewNullLogger())
}

func sh(script string) map[string]any {
	return map[string]any{"jar_path": "/bin/sh", "args": []any{"-c", script}}
}

func TestContract(t *testing.T) {
	var dirs sync.Map
	suite.Run(t, suite.Harness{
		New: func(t *testing.T) driver.Driver {
			dir, known := dirs.Load(t.Name())
			if !known {
				dir = t.TempDir()
				dirs.Store(t.Name(), dir)
			}
			return newDriver(t, dir.(string), nil)
		},
		Sleep:     sh(`exec sleep 1000`),
		Exit7:     sh(`exit 7`),
		Killed:    sh(`kill -9 $$`),
		Print:     sh(`echo out; echo err >&2`),
		ReadMount: sh(`cat data/hello`),
		Commands:  suite.Commands{Copy: []string{"cat"}},
		Bad:       map[string]any{"class": "x", "cap_add": []any{"fly"}},
		BadKey:    `config of driver java: "cap_add"`,
		Durable:   true,
		Logs:      true,
	})
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir(), nil)
	for want, config := range map[string]map[string]any{
		"/\n-Xmx64m\n-ea\n-cp\nlocal/a.jar:local/b\ncom.example.Main\nx y\n": {
			"class": "com.example.Main", "class_path": "local/a.jar:local/b", "jvm_options": []any{"-Xmx64m", "-ea"}, "args": []any{"x y"},
		},
		"/tmp\nMain\n": {"class": "Main", "work_dir": "/tmp"},
	} {
		task := suite.NewTask(t, config)
		if _, err := d.Start(suite.Context(t), task); err != nil {
			t.Fatal(err)
		}
		x, err := d.Wait(suite.Context(t), task.ID)
		if got := suite.LogText(task, "stdout"); got != want || err != nil || !x.Successful() {
			t.Errorf("output %q, want %q; %+v %v", got, want, x, err)
		}
		if err := d.Destroy(suite.Context(t), task.ID); err != nil {
			t.Error(err)
		}
	}
}

func TestTaskConfig(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]map[string]any{
		`"jar_path" or "class" is required`:         {"args": []any{"x"}},
		`only one of "jar_path" and "class"`:        {"jar_path": "a.jar", "class": "Main"},
		`config of driver java: "work_dir" must be`: {"class": "Main", "work_dir": "x"},
		`config of driver java: "pid_mode" must be`: {"class": "Main", "pid_mode": "x"},
		`"command" is not known`:                    {"class": "Main", "command": "x"},
	} {
		if err := java.ValidateConfig(config); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", config, err, want)
		}
	}
	if _, err := java.ParseConfig(map[string]any{"allow_caps": []any{"fly"}}); err == nil || !strings.Contains(err.Error(), "config of driver java") {
		t.Error(err)
	}
}

func TestHealth(t *testing.T) { // changes the environment
	report := func() driver.Fingerprint {
		ch, err := newDriver(t, t.TempDir(), nil).Fingerprint(suite.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		return <-ch
	}
	f := report()
	for key, want := range map[string]string{
		"": "true", ".version": "17.0.15", ".runtime": "OpenJDK Runtime Environment (build 17.0.15+6)", ".vm": "OpenJDK 64-Bit Server VM (build 17.0.15+6, mixed mode)",
	} {
		if got := f.Attributes["driver.java"+key]; got != want || f.Health != driver.Healthy {
			t.Errorf("attribute driver.java%s is %q, want %q; %s %s", key, got, want, f.Health, f.Description)
		}
	}
	broken := filepath.Join(bin, "java.broken")
	if err := os.WriteFile(broken, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if f := report(); f.Health != driver.Unhealthy || !strings.Contains(f.Description, "Error: no JVM") || f.Attributes["driver.java.version"] != "" {
		t.Errorf("broken: %+v", f)
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	if f := report(); f.Health != driver.Undetected || !strings.Contains(f.Description, `no program "java"`) || f.Attributes["driver.java"] != "" {
		t.Errorf("without a virtual machine: %+v", f)
	}
	if _, err := newDriver(t, t.TempDir(), nil).Start(suite.Context(t), suite.NewTask(t, map[string]any{"class": "Main"})); !errors.Is(err, fault.NotFound) {
		t.Errorf("start: %v, want not found", err)
	}
}
