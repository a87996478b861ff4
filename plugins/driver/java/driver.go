package java

import (
	"context"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/exec"
)

// Name is the name of the driver in job files.
const Name = "java"

// program is the virtual machine.
const program = "java"

// New makes the driver; it touches nothing before its first task.
func New(c exec.Config, log hclog.Logger) *exec.Driver {
	c.Driver = Name
	var java driver.Program
	return exec.NewProgram(c, exec.Program{
		Validate: ValidateConfig, Plan: plan,
		Probe: func(ctx context.Context) driver.Fingerprint { return probe(ctx, &java) },
	}, log)
}

func plan(t *driver.Task) (*driver.Task, error) {
	path, err := driver.Find(program)
	if err != nil {
		return nil, err
	}
	own := *t
	own.Config, err = execConfig(path, t.Config)
	return &own, err
}

// probe reports the version of the virtual machine.
func probe(ctx context.Context, java *driver.Program) driver.Fingerprint {
	version, vm, runtime := "driver."+Name+".version", "driver."+Name+".vm", "driver."+Name+".runtime"
	f := driver.Fingerprint{Attributes: map[string]string{version: "", vm: "", runtime: ""}}
	path, err := driver.Find(program)
	if err != nil {
		f.Health, f.Description = driver.Undetected, err.Error()
		return f
	}
	text, err := java.Version(ctx, path, "-version")
	if err != nil {
		f.Health, f.Description = driver.Unhealthy, err.Error()
		return f
	}
	f.Health = driver.Healthy
	f.Attributes[version], f.Attributes[runtime], f.Attributes[vm] = parseVersion(text)
	return f
}

// parseVersion reads what java -version prints: three lines, after those about variables of the environment.
func parseVersion(text string) (version, runtime, vm string) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		_, rest, found := strings.Cut(line, ` version "`)
		if !found {
			continue
		}
		version, _, _ = strings.Cut(rest, `"`)
		if i+2 < len(lines) {
			runtime, vm = strings.TrimSpace(lines[i+1]), strings.TrimSpace(lines[i+2])
		}
		return version, runtime, vm
	}
	return "", "", ""
}
