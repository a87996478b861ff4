package rules_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec"
	"github.com/open-nomad/open-nomad/jobspec/files"
	"github.com/open-nomad/open-nomad/nomad/jobs/rules"
)

func parse(t *testing.T, path string, body []byte) *api.Job {
	t.Helper()
	j, err := jobspec.Parse(jobspec.Input{Path: path, Body: body, Files: files.Functions("../../../jobspec/testdata")})
	if err != nil {
		t.Fatal(err)
	}
	jobspec.Canonicalize(j)
	rules.Complete(j)
	return j
}

// serviceCheck makes a check that of the service of the group.
func serviceCheck(k api.ServiceCheck) func(*api.Job, *api.TaskGroup, *api.Task) {
	k.Interval, k.Timeout = time.Second, time.Second
	return func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Services[0].Checks[0] = k }
}

// good is a job that nothing is wrong with, of every kind of block that rules look at.
func good(t *testing.T) *api.Job {
	t.Helper()
	return parse(t, "good", []byte(`
job "good" {
  group "g" {
    network {
      port "web" {}
      port "admin" { static = 8080 }
    }
    volume "data" {
      type            = "csi"
      source          = "v"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    scaling {
      min = 1
      max = 3
    }
    service {
      name     = "web"
      port     = "web"
      provider = "nomad"
      check {
        type     = "http"
        path     = "/"
        interval = "2s"
        timeout  = "1s"
      }
    }
    task "t" {
      driver = "raw_exec"
      volume_mount {
        volume      = "data"
        destination = "data"
      }
      csi_plugin {
        id   = "p"
        type = "node"
      }
    }
  }
}`))
}

func check(j *api.Job) error { return errors.Join(rules.Check(j, rules.Default())...) }

func TestGoodJob(t *testing.T) {
	t.Parallel()
	if err := check(good(t)); err != nil {
		t.Error(err)
	}
}

// refusedFiles are job files that parse and must not be registered, with what is wrong.
var refusedFiles = map[string]string{
	"03-group-level":           "ignore_collision is for network mode host",
	"04-task-level":            `names volume "data", which the group does not have`,
	"20-durations":             "min_healthy_time 1h2m3s is not below healthy_deadline 1.5s",
	"22-duplicate-task-parses": `task "t" is there twice`,
}

func TestJobFiles(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../../jobspec/testdata/[0-9]*.nomad.hcl")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, p := range paths {
		body, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(p), ".nomad.hcl")
		err = check(parse(t, p, body))
		want := refusedFiles[name]
		// Vault is refused elsewhere only because it is not configured there.
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}

type spoiled struct {
	want  string
	spoil func(j *api.Job, g *api.TaskGroup, t *api.Task)
}

func secret(s api.Secret) func(*api.Job, *api.TaskGroup, *api.Task) {
	return func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Secrets = []*api.Secret{&s} }
}

var spoiledJobs = []spoiled{
	{`update health_check "vibes" is not one of`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Update.HealthCheck = "vibes" }},
	{`distinct_property count "none"`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Constraints = []*api.Constraint{{LTarget: "x", RTarget: "none", Operand: "distinct_property"}}
	}},
	{`job ID "a\u202eb" contains the character U+202E`, func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.ID = "a\u202eb" }},
	{`namespace "\u0085" contains the character U+0085`, func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.Namespace = "\u0085" }},
	{`node pool "\x1b" contains the character U+001B`, func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.NodePool = "\x1b" }},
	{`datacenter "\u2066" contains the character U+2066`, func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.Datacenters = []string{"dc1", "\u2066"} }},
	{`job: meta key "\n" contains the character U+000A`, func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.Meta = map[string]string{"\n": "x"} }},
	{`group "g": meta key "\t" contains the character U+0009`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Meta = map[string]string{"\t": "x"} }},
	{`task "t": meta key "\u2069" contains the character U+2069`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Meta = map[string]string{"\u2069": "x"} }},
	{`job ui: description "\x1b" contains the character U+001B`, func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.UI = &api.JobUIConfig{Description: "\n\x1b"} }},
	{`label of a link "\u202a" contains the character U+202A`, func(j *api.Job, _ *api.TaskGroup, _ *api.Task) {
		j.UI = &api.JobUIConfig{Links: []*api.JobUILink{{Label: "\u202a"}}}
	}},
	{`scaling policy key "\x1b" contains the character U+001B`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Scaling.Policy = map[string]any{"\x1b": 1}
	}},
	{`parameterized meta key "\x1b" contains the character U+001B`, func(j *api.Job, _ *api.TaskGroup, _ *api.Task) {
		j.Type, j.ParameterizedJob = "batch", &api.ParameterizedJobConfig{MetaRequired: []string{"\x1b"}}
	}},
	{`secret "s-x": a name has 1 to 128 letters, digits and _`, secret(api.Secret{Name: "s-x", Provider: "nomad", Path: "p"})},
	{`secret "s" is there twice`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Secrets = []*api.Secret{{Name: "s", Provider: "nomad", Path: "p"}, {Name: "s", Provider: "x", Path: "p"}}
	}},
	{`secret "s" has no path`, secret(api.Secret{Name: "s", Provider: "nomad"})},
	{`secret provider "" is not valid`, secret(api.Secret{Name: "s", Path: "p"})},
	{`secret provider "../sh" is not valid`, secret(api.Secret{Name: "s", Path: "p", Provider: "../sh"})},
	{"env is for executable providers only", secret(api.Secret{Name: "s", Path: "p", Provider: "nomad", Env: map[string]string{"A": "b"}})},
	{"config is for the providers nomad and vault only", secret(api.Secret{Name: "s", Path: "p", Provider: "x", Config: map[string]any{"a": "b"}})},
	{`config "engine" is not supported`, secret(api.Secret{Name: "s", Path: "p", Provider: "nomad", Config: map[string]any{"engine": "b"}})},
	{`env "A=B" is no variable`, secret(api.Secret{Name: "s", Path: "p", Provider: "x", Env: map[string]string{"A=B": "c"}})},
	{`env "LD_PRELOAD"`, secret(api.Secret{Name: "s", Path: "p", Provider: "x", Env: map[string]string{"LD_PRELOAD": "c"}})},
	{"secrets 301 MB do not fit into memory 300 MB", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Resources.SecretsMB = t.Resources.MemoryMB + 1 }},
	{"job has no ID", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.ID = "" }},
	{`job ID "a b" contains a space`, func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.ID = "a b" }},
	{`job ID "a\x00b" contains the character U+0000`, func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.ID = "a\x00b" }},
	{`job name "\x1b]0;x\a" contains the character U+001B`, func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.Name = "\x1b]0;x\a" }},
	{`group name "a\nb" contains the character U+000A`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Name = "a\nb" }},
	{"group name \"ggg", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Name = strings.Repeat("g", 129) }},
	{`ttt..." is longer than 128 characters`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Name = strings.Repeat("t", 40_000) }},
	{`task name "\xff" is not UTF-8`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Name = "\xff" }},
	{`kill_signal "SIGKILL,SIGTERM" is not one signal`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.KillSignal = "SIGKILL,SIGTERM" }},
	{`change_signal "SIGHUP, SIGTERM" is not one signal`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Templates = []*api.Template{{ChangeMode: "signal", ChangeSignal: "SIGHUP, SIGTERM"}}
	}},
	{`job type "cron" is not one of service, batch`, func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.Type = "cron" }},
	{"priority 101 is not between 1 and 100", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.Priority = 101 }},
	{"a datacenter is empty", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.Datacenters = []string{""} }},
	{"job has no task group", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.TaskGroups = nil }},
	{`group "g" is there twice`, func(j *api.Job, g *api.TaskGroup, _ *api.Task) { j.TaskGroups = append(j.TaskGroups, g) }},
	{"at most 50000 are allowed", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Count = 50_001 }},
	{"count -1 is negative", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Count = -1 }},
	{`group "g" has no task`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Tasks = nil }},
	{"runs once per node, count 2", func(j *api.Job, g *api.TaskGroup, _ *api.Task) { j.Type, g.Count = "system", 2 }},
	{"Task groups with job type system do not support scaling blocks", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.Type = "system" }},
	{"a system job is not rescheduled", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.Type = "system" }},
	{"update is for service and system jobs, not batch", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.Type = "batch" }},
	{"migrate is for service jobs, not batch", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.Type = "batch" }},
	{"periodic is for batch", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.Periodic = &api.PeriodicConfig{} }},
	{`cron "often"`, func(j *api.Job, _ *api.TaskGroup, _ *api.Task) {
		j.Periodic = &api.PeriodicConfig{Specs: []string{"often"}}
	}},
	{`payload "some" is not one of`, func(j *api.Job, _ *api.TaskGroup, _ *api.Task) {
		j.ParameterizedJob = &api.ParameterizedJobConfig{Payload: "some"}
	}},
	{`meta key "k" is required and optional`, func(j *api.Job, _ *api.TaskGroup, _ *api.Task) {
		j.ParameterizedJob = &api.ParameterizedJobConfig{Payload: "optional", MetaRequired: []string{"k"}, MetaOptional: []string{"k"}}
	}},
	{"max_run_duration is for batch", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.MaxRunDuration = time.Hour }},
	{`group "g", task "t": schedule has no cron block`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Schedule = &api.TaskSchedule{} }},
	{`group "g", task "t": schedule: start has 1 fields, not 6`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Schedule = &api.TaskSchedule{Cron: &api.TaskScheduleCron{Start: "x"}}
	}},
	{"a poststop task cannot have a schedule", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Lifecycle = &api.TaskLifecycle{Hook: api.TaskLifecycleHookPoststop}
		t.Schedule = &api.TaskSchedule{Cron: &api.TaskScheduleCron{Start: "0 9 * * * *", End: "0 17"}}
	}},
	{"ephemeral_disk of 5 MB", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.EphemeralDisk.SizeMB = 5 }},
	{`constraint operator "~" is not known`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Constraints = []*api.Constraint{{LTarget: "a", Operand: "~"}}
	}},
	{"constraint regexp", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) {
		j.Constraints = []*api.Constraint{{LTarget: "a", Operand: "regexp", RTarget: "("}}
	}},
	{"affinity weight 0", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.Affinities = []*api.Affinity{{LTarget: "a"}} }},
	{`group "g", task "t": affinity regexp: `, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Affinities = []*api.Affinity{{LTarget: "a", Operand: "regexp", RTarget: "(", Weight: 50}}
	}},
	{`job: affinity version "nine"`, func(j *api.Job, _ *api.TaskGroup, _ *api.Task) {
		j.Affinities = []*api.Affinity{{LTarget: "a", Operand: "version", RTarget: "nine", Weight: 50}}
	}},
	{`group "g", task "t", device "gpu": affinity operator "~" is not known`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Resources.Devices = []*api.RequestedDevice{{Name: "gpu", Affinities: []*api.Affinity{{LTarget: "a", Operand: "~", Weight: 50}}}}
	}},
	{"spread weight 0 is not", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.Spreads = []*api.Spread{{Attribute: "a"}} }},
	{"ask for 120 percent", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) {
		j.Spreads = []*api.Spread{{Attribute: "a", Weight: 50, SpreadTarget: []*api.SpreadTarget{{Value: "x", Percent: 60}, {Value: "y", Percent: 60}}}}
	}},
	{`restart mode "never"`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.RestartPolicy.Mode = "never" }},
	{"would never restart", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.RestartPolicy.Mode, g.RestartPolicy.Attempts = "delay", 0
	}},
	{"do not fit into an interval", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.RestartPolicy.Attempts = 1000 }},
	{"restart interval 1s is below 5s", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.RestartPolicy.Interval = time.Second }},
	{"has 3 attempts and is unlimited", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.ReschedulePolicy.Attempts = 3 }},
	{"reschedule delay 1s is below", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.ReschedulePolicy.Delay = time.Second }},
	{`group "g": reschedule asks for 5 attempts, but with a delay of 30s (constant) only 2 fit into an interval of 1m0s`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.ReschedulePolicy = &api.ReschedulePolicy{Attempts: 5, Delay: 30 * time.Second, Interval: time.Minute, DelayFunction: "constant"}
	}},
	{"(exponential) only 3 fit", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.ReschedulePolicy = &api.ReschedulePolicy{Attempts: 4, Delay: 10 * time.Second, Interval: 100 * time.Second, DelayFunction: "exponential", MaxDelay: time.Hour}
	}},
	{`group "g": update canary 101 is a percentage`, func(j *api.Job, g *api.TaskGroup, _ *api.Task) { j.Type, g.Update.Canary = "system", 101 }},
	{`constraint semver ">= 1.x"`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Constraints = []*api.Constraint{{LTarget: "a", Operand: "semver", RTarget: ">= 1.x"}}
	}},
	{`constraint version "nine"`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Constraints = []*api.Constraint{{LTarget: "a", Operand: "version", RTarget: "nine"}}
	}},
	{"job has 100000 groups, at most 10000 are possible", func(j *api.Job, g *api.TaskGroup, _ *api.Task) {
		j.TaskGroups = make([]*api.TaskGroup, 100_000)
		for i := range j.TaskGroups {
			j.TaskGroups[i] = g
		}
	}},
	{"auto_promote needs canaries", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Update.AutoPromote = true }},
	{"healthy_deadline 20m0s is not below progress_deadline", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Update.HealthyDeadline = 20 * time.Minute }},
	{`group "g", task "t": kill_timeout 11m0s is above update.progress_deadline 10m0s`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.KillTimeout = 11 * time.Minute }},
	{`group "g", task "t": kill_timeout is negative`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.KillTimeout = -1 }},
	{`group "g": update healthy_deadline must be positive`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Update.HealthyDeadline = 0 }},
	{`group "g": update min_healthy_time is negative`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Update.MinHealthyTime = -1 }},
	{`group "g": update progress_deadline is negative`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Update.ProgressDeadline = -1 }},
	{`group "g": update max_parallel -1 is negative`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Update.MaxParallel = -1 }},
	{`group "g": migrate min_healthy_time 1h0m0s is above healthy_deadline`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Migrate.MinHealthyTime = time.Hour }},
	{`reconcile "dice"`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		dice := api.ReconcileOption("dice")
		g.Disconnect = &api.DisconnectStrategy{Reconcile: &dice}
	}},
	{"count 1 is not between scaling min 2", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Scaling.Min = 2 }},
	{"scaling max 0 is below min 1", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Scaling.Max = 0 }},
	{"default identity: ttl is for named identities", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Identity = &api.WorkloadIdentity{TTL: time.Hour} }},
	{"default identity: filepath needs file", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Identity = &api.WorkloadIdentity{Filepath: "x"} }},
	{`identity "a b": a name has`, identities(api.WorkloadIdentity{Name: "a b"})},
	{`identity "": a name has`, identities(api.WorkloadIdentity{})},
	{`identity "default": the name is there twice`, identities(api.WorkloadIdentity{Name: "default"})},
	{`identity "a": the name is there twice`, identities(api.WorkloadIdentity{Name: "a"}, api.WorkloadIdentity{Name: "a"})},
	{`identity "a": ttl -1ns is negative`, identities(api.WorkloadIdentity{Name: "a", TTL: -1})},
	{"an audience is empty", identities(api.WorkloadIdentity{Name: "a", Audience: []string{"x", ""}})},
	{`audience "nomadproject.io/node" is reserved`, identities(api.WorkloadIdentity{Name: "a", Audience: []string{"nomadproject.io/node"}})},
	{`audience "nomadproject.io/node-introduction" is reserved`, identities(api.WorkloadIdentity{Name: "a", Audience: []string{"nomadproject.io/node-introduction"}})},
	{`change_mode "later"`, identities(api.WorkloadIdentity{Name: "a", ChangeMode: "later"})},
	{"change_mode signal needs change_signal", identities(api.WorkloadIdentity{Name: "a", ChangeMode: "signal"})},
	{"change_signal needs change_mode signal", identities(api.WorkloadIdentity{Name: "a", ChangeMode: "restart", ChangeSignal: "SIGHUP"})},
	{`change_signal "A B" is not one signal`, identities(api.WorkloadIdentity{Name: "a", ChangeMode: "signal", ChangeSignal: "A B"})},
	{"filepath needs file", identities(api.WorkloadIdentity{Name: "a", Filepath: "secrets/x"})},
	{"is outside of the allocation", identities(api.WorkloadIdentity{Name: "a", File: true, Filepath: "../../../x"})},
	{`extra claim "x" is empty or there twice`, identities(api.WorkloadIdentity{Name: "a", ExtraClaims: []string{"x", "x"}})},
	{`network mode "wifi"`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Networks[0].Mode = "wifi" }},
	{`port "web" is there twice`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Networks[0].DynamicPorts = append(g.Networks[0].DynamicPorts, api.Port{Label: "web"})
	}},
	{`ports "admin" and "other" are both 8080`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Networks[0].ReservedPorts = append(g.Networks[0].ReservedPorts, api.Port{Label: "other", Value: 8080})
	}},
	{`network mode "cni/a b" is not host, bridge, none or cni/<name>`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Networks[0].Mode = "cni/a b" }},
	{`cni argument "k" is empty, or it or its value contains ";" or "="`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Networks[0].CNI = &api.CNIConfig{Args: map[string]string{"k": "a;IP=10.0.0.1"}}
	}},
	{`network hostname "a b" is no host name`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Networks[0].Hostname = "a b" }},
	{`dns server "a.example" is no IP address`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Networks[0].DNS = &api.DNSConfig{Servers: []string{"192.0.2.1", "a.example"}}
	}},
	{`dns: "ndots:2\nnameserver 1" is empty or has spaces`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Networks[0].DNS = &api.DNSConfig{Options: []string{"ndots:2\nnameserver 1"}}
	}},
	{"70000 is not a port", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Networks[0].ReservedPorts[0].Value = 70000 }},
	{`port "nope" is not a port of the group`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Services[0].PortLabel = "nope" }},
	{`check type "udp" is not one of http, tcp, grpc, script`, serviceCheck(api.ServiceCheck{Type: "udp"})},
	{`check on_update "never" is not one of`, serviceCheck(api.ServiceCheck{Type: "tcp", OnUpdate: "never"})},
	{"command and args are for checks of type script, not tcp", serviceCheck(api.ServiceCheck{Type: "tcp", Command: "x"})},
	{"grpc_service and grpc_use_tls are for checks of type grpc, not tcp", serviceCheck(api.ServiceCheck{Type: "tcp", GRPCUseTLS: true})},
	{"a check of type script needs a command", serviceCheck(api.ServiceCheck{Type: "script", TaskName: "t"})},
	{"a check of type script needs the task that it runs in: set task", serviceCheck(api.ServiceCheck{Type: "script", Command: "x"})},
	{"contains a NUL byte", serviceCheck(api.ServiceCheck{Type: "script", Command: "x\x00", TaskName: "t"})},
	{`a check of type script: task "none" is not a task of the group`, serviceCheck(api.ServiceCheck{Type: "script", Command: "x", TaskName: "none"})},
	{"template 1: change_mode script: driver qemu does not run commands in its tasks", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Driver = "qemu"
		t.Templates = []*api.Template{{EmbeddedTmpl: "x", DestPath: "local/x", ChangeMode: "script", ChangeScript: &api.ChangeScript{Command: "x"}}}
	}},
	{`a check of type script: driver qemu of task "t" does not run commands in its tasks`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Driver = "qemu"
		t.Services = []*api.Service{{Name: "s", Provider: "nomad", Checks: []api.ServiceCheck{{Type: "script", Command: "x", Interval: time.Second, Timeout: time.Second}}}}
	}},
	{"must be at least 1s", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Services[0].Checks[0].Timeout = 1 }},
	{`volume "data": type "nfs"`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Volumes["data"].Type = "nfs" }},
	{`volume "data" has no source`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Volumes["data"].Source = "" }},
	{"access_mode is required", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Volumes["data"].AccessMode = "" }},
	{`access_mode "foo" is not one of`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Volumes["data"].AccessMode = "foo" }},
	{"attachment_mode is required", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Volumes["data"].AttachmentMode = "" }},
	{"access mode multi-node-reader-only needs read_only", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Volumes["data"].AccessMode = "multi-node-reader-only"
	}},
	{"access mode single-node-writer allows one allocation, count is 2", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Count = 2 }},
	{"a canary can never get a volume", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Update.Canary = 1 }},
	{"per_alloc is not possible with canaries", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Update.Canary, g.Volumes["data"].PerAlloc = 1, true
	}},
	{"a block device has no file system", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Volumes["data"].AttachmentMode, g.Volumes["data"].MountOptions = "block-device", &api.MountOptions{FSType: "ext4"}
	}},
	{"has no driver", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Driver = "" }},
	{"not possible for a directory", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Name = "a/b" }},
	{`task "t" is there twice`, func(_ *api.Job, g *api.TaskGroup, t *api.Task) { g.Tasks = append(g.Tasks, t) }},
	{"memory 5 MB is below", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Resources.MemoryMB = 5 }},
	{"cpu and cores: only one", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Resources.Cores = 1 }},
	{`group "g", task "t": numa affinity "near" is not one of none, prefer, require`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Resources.NUMA = &api.NUMAResource{Affinity: "near"}
	}},
	{`group "g", task "t": numa affinity require is about reserved cores, and the task asks for none`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Resources.NUMA = &api.NUMAResource{Affinity: "require"}
	}},
	{`group "g", task "t": numa device "nvidia/gpu" is not the name of a device block of the task`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Resources.CPU, t.Resources.Cores, t.Resources.Devices = 0, 1, []*api.RequestedDevice{{Name: "gpu", Count: 1}}
		t.Resources.NUMA = &api.NUMAResource{Affinity: "require", Devices: []string{"nvidia/gpu"}}
	}},
	{`group "g", task "t": numa devices need the affinity prefer or require`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Resources.CPU, t.Resources.Cores, t.Resources.Devices = 0, 1, []*api.RequestedDevice{{Name: "gpu", Count: 1}}
		t.Resources.NUMA = &api.NUMAResource{Devices: []string{"gpu"}}
	}},
	{`group "g", task "t": numa devices are about reserved cores, and the task asks for none`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Resources.Devices = []*api.RequestedDevice{{Name: "gpu", Count: 1}}
		t.Resources.NUMA = &api.NUMAResource{Affinity: "prefer", Devices: []string{"gpu"}}
	}},
	{"do not fit into an ephemeral_disk of 300 MB", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.LogConfig.MaxFiles = 1 << 40 }},
	{`task "t": scaling type "horizontal" is not one of vertical_cpu, vertical_mem`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.ScalingPolicies = []*api.ScalingPolicy{{Type: "horizontal", Max: 1}}
	}},
	{`task "t": scaling "vertical_cpu" is there twice`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.ScalingPolicies = []*api.ScalingPolicy{{Type: "vertical_cpu", Max: 1}, {Type: "vertical_cpu", Max: 1}}
	}},
	{`task "t": scaling max 1 is below min 2`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.ScalingPolicies = []*api.ScalingPolicy{{Type: "vertical_mem", Min: 2, Max: 1}}
	}},
	{`group "g": scaling type "vertical_cpu" is not one of`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Scaling = &api.ScalingPolicy{Type: "vertical_cpu", Max: 1}
	}},
	{`reserved port "x" has no static number`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Networks = []*api.NetworkResource{{ReservedPorts: []api.Port{{Label: "x"}}}}
	}},
	{"has no main task", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Lifecycle = &api.TaskLifecycle{Hook: "prestart"} }},
	{`lifecycle hook "later"`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Lifecycle = &api.TaskLifecycle{Hook: "later"} }},
	{`names volume "nope", which the group does not have`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.VolumeMounts[0].Volume = "nope" }},
	{`two volumes are mounted at "data/"`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.VolumeMounts = append(t.VolumeMounts, &api.VolumeMount{Volume: "data", Destination: "data/"})
	}},
	{`group "g", task "t": sub_path "/abs" of volume_mount "data" is absolute`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.VolumeMounts[0].SubPath = "/abs" }},
	{`group "g", task "t": owner of volume_mount "data": "web" is not a user and a group by number`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.VolumeMounts[0].Owner = "web" }},
	{`group "g", task "t": sub_path "a/../../b" of volume_mount "data" contains ".."`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.VolumeMounts[0].SubPath = "a/../../b" }},
	{"a block device has no directories", func(_ *api.Job, g *api.TaskGroup, t *api.Task) {
		g.Volumes["data"].AttachmentMode, t.VolumeMounts[0].SubPath = "block-device", "a"
	}},
	{`group "g": volumes "data" and "raw" are the same volume "v", which is either a file system or a block device: attachment_mode is "file-system" and "block-device"`, again("raw", func(v *api.VolumeRequest) { v.AttachmentMode = "block-device" })},
	{`"data" and "read" are the same volume "v", with access_mode`, again("read", func(v *api.VolumeRequest) { v.AccessMode, v.ReadOnly = "multi-node-reader-only", true })},
	{`which is mounted once with access_mode "single-node-writer"`, again("noexec", func(v *api.VolumeRequest) { v.MountOptions = &api.MountOptions{MountFlags: []string{"noexec"}} })},
	{`"data" and "zfs" are the same volume "v", which is one file system`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Volumes["data"].AccessMode, g.Volumes["data"].MountOptions = "multi-node-multi-writer", &api.MountOptions{FSType: "ext4"}
		again("zfs", func(v *api.VolumeRequest) { v.MountOptions = &api.MountOptions{FSType: "zfs"} })(nil, g, nil)
	}},
	{`"data" and "third" are the same volume "v[2]"`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Count, g.Volumes["data"].PerAlloc = 3, true
		again("third", func(v *api.VolumeRequest) {
			v.PerAlloc, v.Source, v.AccessMode = false, "v[2]", "multi-node-multi-writer"
		})(nil, g, nil)
	}},
	{`csi_plugin type "both"`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.CSIPluginConfig.Type = "both" }},
	{"csi_plugin id", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.CSIPluginConfig.ID = "a b" }},
	{"must not be inside mount_dir", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.CSIPluginConfig.StagePublishBaseDir = "/csi/x" }},
	{"template 1 has neither source nor data", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Templates = []*api.Template{{DestPath: "a", ChangeMode: "noop"}}
	}},
	{"is outside of the allocation", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Templates = []*api.Template{{DestPath: "../a/../../b", EmbeddedTmpl: "x", ChangeMode: "noop"}}
	}},
	{"a name has 1 to 128 letters", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Actions = []*api.Action{{Name: "a b", Command: "x"}}
	}},
	{`action "a" has no command`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Actions = []*api.Action{{Name: "a"}} }},
	{`action "a" is there twice`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Actions = []*api.Action{{Name: "a", Command: "x"}, {Name: "a", Command: "y"}}
	}},
	{"an artifact has no source", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Artifacts = []*api.TaskArtifact{{}} }},
}

// again names the volume of the group once more, changed.
func again(alias string, change func(*api.VolumeRequest)) func(*api.Job, *api.TaskGroup, *api.Task) {
	return func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		v := *g.Volumes["data"]
		v.Name = alias
		change(&v)
		g.Volumes[alias] = &v
	}
}

func TestEveryMistakeIsNamed(t *testing.T) {
	t.Parallel()
	for _, s := range spoiledJobs {
		j := good(t)
		s.spoil(j, j.TaskGroups[0], j.TaskGroups[0].Tasks[0])
		if err := check(j); err == nil || !strings.Contains(err.Error(), s.want) {
			t.Errorf("want %q, got %v", s.want, err)
		}
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	t.Parallel()
	j := good(t)
	j.Priority, j.TaskGroups[0].Count, j.TaskGroups[0].Tasks[0].Driver = 0, -1, ""
	if errs := rules.Check(j, rules.Default()); len(errs) != 4 {
		t.Errorf("got %d: %v", len(errs), errs)
	}
}

func TestWhatIsAllowed(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(g *api.TaskGroup, v *api.VolumeRequest){
		"readers share": func(g *api.TaskGroup, v *api.VolumeRequest) {
			g.Count, v.AccessMode, v.ReadOnly = 3, "multi-node-reader-only", true
		},
		"writers share":   func(g *api.TaskGroup, v *api.VolumeRequest) { g.Count, v.AccessMode = 3, "multi-node-multi-writer" },
		"one volume each": func(g *api.TaskGroup, v *api.VolumeRequest) { g.Count, v.PerAlloc = 3, true },
		"reading what one writes": func(g *api.TaskGroup, v *api.VolumeRequest) {
			g.Count, v.AccessMode, v.ReadOnly = 3, "multi-node-single-writer", true
		},
		"a volume twice": func(g *api.TaskGroup, v *api.VolumeRequest) {
			v.AccessMode = "multi-node-multi-writer"
			again("read", func(v *api.VolumeRequest) {
				v.ReadOnly, v.MountOptions = true, &api.MountOptions{MountFlags: []string{"ro", "noexec"}}
			})(nil, g, nil)
		},
		"a volume of one user twice": func(g *api.TaskGroup, _ *api.VolumeRequest) {
			again("read", func(v *api.VolumeRequest) { v.ReadOnly = true })(nil, g, nil)
		},
		"unlimited memory": func(g *api.TaskGroup, _ *api.VolumeRequest) { g.Tasks[0].Resources.MemoryMaxMB = -1 },
		"cores of one place": func(g *api.TaskGroup, _ *api.VolumeRequest) {
			r := g.Tasks[0].Resources
			r.CPU, r.Cores, r.NUMA = 0, 2, &api.NUMAResource{Affinity: "require"}
		},
		"cores near a device": func(g *api.TaskGroup, _ *api.VolumeRequest) {
			r := g.Tasks[0].Resources
			r.Devices = []*api.RequestedDevice{{Name: "nvidia/gpu", Count: 1}}
			r.CPU, r.Cores, r.NUMA = 0, 2, &api.NUMAResource{Affinity: "require", Devices: []string{"nvidia/gpu"}}
		},
		"no restart":  func(g *api.TaskGroup, _ *api.VolumeRequest) { g.RestartPolicy.Attempts = 0 },
		"all at once": func(g *api.TaskGroup, _ *api.VolumeRequest) { g.Update = &api.UpdateStrategy{} },
		"no progress deadline": func(g *api.TaskGroup, _ *api.VolumeRequest) {
			g.Update.ProgressDeadline, g.Tasks[0].KillTimeout = 0, time.Hour
		},
	} {
		j := good(t)
		change(j.TaskGroups[0], j.TaskGroups[0].Volumes["data"])
		if err := check(j); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatIsAcceptedElsewhereIsAccepted(t *testing.T) {
	t.Parallel()
	j := good(t)
	task := j.TaskGroups[0].Tasks[0]
	task.Resources.DiskMB, task.Resources.SecretsMB = 100, 5
	task.Secrets = []*api.Secret{
		{Name: "a", Provider: "nomad", Path: "p", Config: map[string]any{"namespace": "x"}}, {Name: "b", Provider: "x", Path: "p", Env: map[string]string{"A": "b"}},
	}
	task.Artifacts = []*api.TaskArtifact{{GetterSource: "http://a/b", RelativeDest: "../alloc/x"}}
	task.Templates = []*api.Template{{DestPath: "../alloc/y", EmbeddedTmpl: "x", ChangeMode: "noop"}}
	if errs := rules.Check(j, rules.Default()); len(errs) > 0 {
		t.Errorf("refused: %v", errs)
	}
	if w := rules.Warnings(j, false); !strings.Contains(w, "disk in resources is ignored") {
		t.Errorf("warnings %q", w)
	}
	rules.Drop(j)
	if task.Resources.DiskMB != 0 {
		t.Error("disk is kept")
	}
}

func identities(all ...api.WorkloadIdentity) func(*api.Job, *api.TaskGroup, *api.Task) {
	return func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		for i := range all {
			t.Identities = append(t.Identities, &all[i])
		}
	}
}

func TestIdentitiesAreAccepted(t *testing.T) {
	t.Parallel()
	j := good(t)
	task := j.TaskGroups[0].Tasks[0]
	task.Identity = &api.WorkloadIdentity{Env: true, File: true, Filepath: "secrets/token", ChangeMode: "restart", ExtraClaims: []string{"team"}}
	task.Identities = []*api.WorkloadIdentity{
		{Name: "aws_1-A", Audience: []string{"aws"}, TTL: time.Hour, File: true, ChangeMode: "signal", ChangeSignal: "SIGHUP"}, {Name: "plain", ChangeMode: "noop"},
	}
	j.TaskGroups[0].Services = nil
	rules.Complete(j)
	if errs := append(rules.Later(j), rules.Check(j, rules.Default())...); len(errs) > 0 {
		t.Error(errs)
	}
}

func TestALabelThatADriverDoesNotSetIsWarnedOf(t *testing.T) {
	t.Parallel()
	for driver, want := range map[string]bool{"docker": false, "exec": true} {
		j := &api.Job{TaskGroups: []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{{
			Name: "t", Driver: driver, VolumeMounts: []*api.VolumeMount{{Volume: "data", SELinuxLabel: "Z"}},
		}}}}}
		if w := rules.Warnings(j, false); strings.Contains(w, `selinux_label of volume_mount "data" is ignored`) != want {
			t.Errorf("%s: warnings %q, want one of the label: %v", driver, w, want)
		}
	}
}
