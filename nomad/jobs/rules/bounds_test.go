package rules_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/jobs/rules"
)

func repeat[T any](n int, one T) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = one
	}
	return all
}

// What is added up, compared with each other or counted through is bounded, and told with its name.
func TestWhatIsTooMuchIsRefusedSoon(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*api.Job, *api.TaskGroup, *api.Task){
		"cpu: 4611686018427387904, at most 1099511627776": func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Resources.CPU = 1 << 62 },
		"memory: 8796093022208, at most":                  func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Resources.MemoryMB = 1 << 43 },
		"memory_max: 8796093022208, at most":              func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Resources.MemoryMaxMB = 1 << 43 },
		"cores: 65537, at most 65536":                     func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Resources.CPU, t.Resources.Cores = 0, 1<<16+1 },
		"ephemeral_disk size: 8796093022208, at most":     func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.EphemeralDisk.SizeMB = 1 << 43 },
		"network mbits: 8796093022208, at most":           func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Networks[0].MBits = 1 << 43 },
		"logs max_files: 10001, at most 10000":            func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.LogConfig.MaxFiles = 10_001 },
		"max_file_size: 8796093022208, at most":           func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.LogConfig.MaxFileSizeMB = 1 << 43 },
		"max_parallel: 250001, at most 250000":            func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Update.MaxParallel = 250_001 },
		"restart attempts: 65537, at most 65536":          func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.RestartPolicy.Attempts = 1<<16 + 1 },
		"reschedule attempts: 1099511627776, at most 1000": func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
			g.ReschedulePolicy = &api.ReschedulePolicy{Attempts: 1 << 40, Interval: 1<<63 - 1, Delay: 5 * time.Second, DelayFunction: "constant"}
		},
		"volumes: 101, at most 100": func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
			for i := range 100 {
				g.Volumes[fmt.Sprint(i)] = &api.VolumeRequest{Type: "host", Source: fmt.Sprint("s", i), PerAlloc: i%2 == 0}
			}
		},
		"job has 10100 volumes, at most 10000": func(j *api.Job, _ *api.TaskGroup, _ *api.Task) {
			volumes := map[string]*api.VolumeRequest{}
			for i := range 101 {
				volumes[fmt.Sprint(i)] = &api.VolumeRequest{}
			}
			j.TaskGroups = repeat(100, &api.TaskGroup{Volumes: volumes})
		},
		"job has 20001 tasks, at most 20000": func(_ *api.Job, g *api.TaskGroup, t *api.Task) { g.Tasks = repeat(20_001, t) },
		"job has 10001 groups, at most 10000": func(j *api.Job, g *api.TaskGroup, _ *api.Task) {
			j.TaskGroups = repeat(10_001, g)
		},
		"job.TaskGroups[0].Services has 10001 entries, at most 10000": func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
			g.Services = repeat(10_001, g.Services[0])
		},
		"job.TaskGroups[0].Tasks[0].Config[a] has 10001 entries": func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
			t.Config = map[string]any{"a": make([]any, 10_001)}
		},
		"job has more than 200000 entries": func(j *api.Job, g *api.TaskGroup, _ *api.Task) {
			g.Services[0].Tags = make([]string, 9_000)
			j.TaskGroups = repeat(30, g)
		},
		"and 148": func(_ *api.Job, g *api.TaskGroup, t *api.Task) { g.Tasks = repeat(5_000, &api.Task{}) },
	} {
		j := good(t)
		g := j.TaskGroups[0]
		change(j, g, g.Tasks[0])
		began := time.Now()
		err := check(j)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %.300v", want, err)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%q took %v", want, took)
		}
	}
}

// What is let in must not take a time that grows with the square of it.
func TestLongListsAreCheckedSoon(t *testing.T) {
	t.Parallel()
	began := time.Now()
	j := &api.Job{ID: "a", Type: api.JobTypeBatch, ParameterizedJob: &api.ParameterizedJobConfig{
		Payload: "optional", MetaRequired: repeat(10_000, ""), MetaOptional: repeat(10_000, "a"),
	}}
	g := &api.TaskGroup{Name: "g", Count: 1, Networks: []*api.NetworkResource{{}}, Services: repeat(10_000, &api.Service{Name: "s", PortLabel: "x"})}
	for i := range 10_000 {
		g.Networks[0].DynamicPorts = append(g.Networks[0].DynamicPorts, api.Port{Label: fmt.Sprint("p", i)})
	}
	j.TaskGroups = repeat(8, g)
	if err := check(j); err == nil || !strings.Contains(err.Error(), `port "x" is not a port`) {
		t.Errorf("%.200v", err)
	}
	if err := check(&api.Job{}); err == nil {
		t.Error("an empty job is accepted")
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
}

// The leader reads the expressions again for each launch, in the one loop that launches everybody's jobs.
func TestLongCronsAreNotRead(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0-59,", 400_000) + "0-59 * * * *"
	p := &api.PeriodicConfig{Enabled: true, SpecType: "cron", TimeZone: "UTC", Spec: long}
	j := &api.Job{ID: "a", Type: api.JobTypeBatch, Priority: 50, Periodic: p}
	began := time.Now()
	err := errors.Join(rules.Check(j, rules.Default())...)
	if err == nil || !strings.Contains(err.Error(), "has 2000012 characters, at most 256") || len(err.Error()) > 2000 {
		t.Errorf("%.500v", err)
	}
	if !rules.NextLaunch(p, began).IsZero() {
		t.Error("it is launched")
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
}
