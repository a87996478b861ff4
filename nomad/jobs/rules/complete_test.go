package rules_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/jobs/rules"
)

func constrained(g *api.TaskGroup, attribute string) int {
	n := 0
	for _, c := range g.Constraints {
		if c.LTarget == "${attr."+attribute+"}" {
			n++
		}
	}
	return n
}

func TestCompleteAddsWhatFollows(t *testing.T) {
	t.Parallel()
	j := good(t)
	g := j.TaskGroups[0]
	if j.NodePool != "default" || len(j.Datacenters) != 1 || j.Datacenters[0] != "*" {
		t.Errorf("pool %q, datacenters %v", j.NodePool, j.Datacenters)
	}
	if id := g.Tasks[0].Identity; id == nil || id.Name != "default" || len(id.Audience) != 1 {
		t.Errorf("identity %+v", id)
	}
	if constrained(g, "nomad.service_discovery") != 1 || constrained(g, "consul.version") != 0 {
		t.Errorf("constraints %v", g.Constraints)
	}
	task := g.Tasks[0]
	task.KillSignal, task.Vault = "SIGUSR1", &api.Vault{ChangeMode: "signal", ChangeSignal: "SIGHUP"}
	task.Templates = []*api.Template{{ChangeMode: "signal", ChangeSignal: "SIGUSR1"}, {ChangeMode: "noop", ChangeSignal: "SIGTERM"}}
	task.Secrets = []*api.Secret{{Provider: "nomad"}, {Provider: "pass"}}
	task.Services = []*api.Service{{Provider: "consul"}}
	g.Networks[0].Mode = "bridge"
	rules.Complete(j)
	for _, attribute := range []string{"os.signals", "vault.version", "consul.version", "plugins.cni.version.portmap", "plugins.secrets.pass.version"} {
		if constrained(g, attribute) != 1 {
			t.Errorf("%s: constraints %v", attribute, g.Constraints)
		}
	}
	for _, c := range g.Constraints {
		if c.LTarget == "${attr.os.signals}" && c.RTarget != "SIGHUP,SIGUSR1" {
			t.Errorf("signals %q", c.RTarget)
		}
	}
	if err := check(j); err != nil && strings.Contains(err.Error(), "constraint") {
		t.Error(err)
	}
}

func TestCompleteTwiceIsOnce(t *testing.T) {
	t.Parallel()
	j := good(t)
	once, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	rules.Complete(j)
	if twice, err := json.Marshal(j); err != nil || string(once) != string(twice) {
		t.Errorf("%v\n%s\n%s", err, once, twice)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	j := good(t)
	want := "1 warning:\n\n* group \"g\" defines services, but neither the group nor any of its tasks have shutdown_delay set"
	if got := rules.Warnings(j, false); got != want {
		t.Errorf("got %q", got)
	}
	j.TaskGroups[0].ShutdownDelay = 1
	if got := rules.Warnings(j, false); got != "" {
		t.Errorf("got %q", got)
	}
	j.TaskGroups[0].Update.MaxParallel = 5
	j.TaskGroups[0].Tasks[0].Resources.MemoryMaxMB = 500
	j.Periodic = &api.PeriodicConfig{Spec: "@daily"}
	got := rules.Warnings(j, false)
	for _, part := range []string{"3 warnings:", "cron is deprecated", "max_parallel 5 is greater than count 1", "memory_max is ignored"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing in %q", part, got)
		}
	}
	if got := rules.Warnings(j, true); !strings.HasPrefix(got, "2 warnings:") {
		t.Errorf("with oversubscription: %q", got)
	}
}

func TestTheDefaultIdentityIsForTheServers(t *testing.T) {
	t.Parallel()
	for _, id := range []*api.WorkloadIdentity{nil, {}, {Name: "default"}, {Audience: []string{"mine"}}} {
		j := good(t)
		task := j.TaskGroups[0].Tasks[0]
		task.Identity = id
		rules.Complete(j)
		if got := task.Identity; got.Name != "default" || len(got.Audience) != 1 || got.Audience[0] != "nomadproject.io" {
			t.Errorf("%+v became %+v", id, got)
		}
	}
}

func TestIdentitiesWithoutEndAreWarnedOf(t *testing.T) {
	t.Parallel()
	j := good(t)
	task := j.TaskGroups[0].Tasks[0]
	task.Identities = []*api.WorkloadIdentity{{Name: "short", TTL: 1}, {Name: "long"}}
	if w := rules.Warnings(j, false); !strings.Contains(w, `identity "long" has no ttl`) || strings.Contains(w, `"short" has no ttl`) {
		t.Errorf("warnings %q", w)
	}
}
