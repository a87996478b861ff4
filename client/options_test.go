package client

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/fingerprint"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

func TestEnvDenylistKeepsVariablesFromTasks(t *testing.T) {
	t.Parallel()
	environ := []string{"FOO_SECRET=1", "BAR=2", "AWS_SECRET_ACCESS_KEY=3", "PATH=/bin"}
	for _, x := range []struct {
		options map[string]string
		want    []string
	}{
		{nil, []string{"BAR", "FOO_SECRET", "PATH"}},
		{map[string]string{"env.denylist": "FOO_*, PATH"}, []string{"AWS_SECRET_ACCESS_KEY", "BAR"}},
		{map[string]string{"env.denylist": "BAR"}, []string{"AWS_SECRET_ACCESS_KEY", "FOO_SECRET", "PATH"}},
		{map[string]string{"env.denylist": ""}, []string{"AWS_SECRET_ACCESS_KEY", "BAR", "FOO_SECRET", "PATH"}},
	} {
		c := Config{Options: x.options}
		var got []string
		for name := range c.inherited(environ) {
			got = append(got, name)
		}
		if slices.Sort(got); !slices.Equal(got, x.want) {
			t.Errorf("%v: %v, want %v", x.options, got, x.want)
		}
	}
}

// starter is a driver of which only the start matters.
type starter struct {
	driver.Driver
	name      string
	isolation driver.Isolation
}

func (s starter) Name() string { return s.name }

func (s starter) Capabilities() driver.Capabilities {
	return driver.Capabilities{Isolation: s.isolation}
}

func (s starter) Start(context.Context, *driver.Task) (*driver.Handle, error) {
	return &driver.Handle{}, nil
}

func TestUserDenylistOfCheckedDrivers(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		options      map[string]string
		driver, user string
		denied       bool
	}{
		{nil, "exec", "root", true},
		{nil, "exec", "0", true},
		{nil, "exec", "nobody", false},
		{nil, "other", "root", false},
		{map[string]string{"user.denylist": "nobody"}, "exec", "nobody", true},
		{map[string]string{"user.denylist": "nobody"}, "exec", "65534", true},
		{map[string]string{"user.denylist": "nobody"}, "exec", "root", false},
		{map[string]string{"user.checked_drivers": "other"}, "other", "root", true},
		{map[string]string{"user.checked_drivers": "other"}, "exec", "root", false},
		{map[string]string{"user.checked_drivers": ""}, "exec", "root", false},
	} {
		c := Config{Options: x.options, Log: hclog.NewNullLogger(), Drivers: []driver.Driver{starter{name: x.driver, isolation: driver.IsolationImage}}}
		_, err := c.drivers()[x.driver].Start(t.Context(), &driver.Task{Name: "t", User: x.user})
		if denied := errors.Is(err, fault.Invalid); denied != x.denied {
			t.Errorf("%v, driver %s, user %q: error %v", x.options, x.driver, x.user, err)
		}
	}
}

func TestFingerprintsThatAreNotWanted(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		options      map[string]string
		cpu, storage bool
	}{
		{nil, true, true},
		{map[string]string{"fingerprint.denylist": "storage,network"}, true, false},
		{map[string]string{"fingerprint.allowlist": "cpu"}, true, false},
		{map[string]string{"fingerprint.allowlist": "cpu,storage", "fingerprint.denylist": "cpu"}, false, true},
	} {
		c, n := Config{Options: x.options}, &api.Node{}
		if err := fingerprint.Run(t.Context(), fingerprint.Config{DataDir: t.TempDir(), Wanted: c.probed}, n); err != nil {
			t.Fatal(err)
		}
		if _, cpu := n.Attributes["cpu.numcores"]; cpu != x.cpu {
			t.Errorf("%v: cpu %v", x.options, cpu)
		}
		if _, storage := n.Attributes["unique.storage.volume"]; storage != x.storage {
			t.Errorf("%v: storage %v", x.options, storage)
		}
	}
}

func TestOptionsThatNothingReads(t *testing.T) {
	t.Parallel()
	c := Config{Options: map[string]string{"env.denylist": "", "env.blacklst": "X", "docker.cleanup": "y", "csi.plugin_calls": "3"}}
	if got := c.unknownOptions(); !slices.Equal(got, []string{"docker.cleanup", "env.blacklst"}) {
		t.Errorf("unknown options %v", got)
	}
}
