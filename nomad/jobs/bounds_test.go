package jobs_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

func many(n int) []*api.Task {
	var all []*api.Task
	for i := range n {
		all = append(all, &api.Task{Name: fmt.Sprintf("%06d", i), Driver: "a"})
	}
	return all
}

// sized is a job with a group of each count.
func sized(counts ...int) *api.Job {
	j := &api.Job{ID: "a"}
	for i, n := range counts {
		j.TaskGroups = append(j.TaskGroups, &api.TaskGroup{Name: fmt.Sprint("g", i), Count: n, Tasks: many(1)})
	}
	return j
}

func TestJobsThatAskForTooMuchAreRefused(t *testing.T) {
	t.Parallel()
	update := func(canary int) *api.Job {
		j := sized(1)
		j.TaskGroups[0].Update = &api.UpdateStrategy{
			MaxParallel: 1, Canary: canary, HealthCheck: "checks", MinHealthyTime: time.Second, HealthyDeadline: time.Minute, ProgressDeadline: time.Hour,
		}
		return j
	}
	for name, j := range map[string]*api.Job{
		"counts whose sum runs over": sized(1<<62, 1<<62),
		"counts in sum":              sized(50_000, 1),
		"canaries":                   update(1 << 40),
		"tasks":                      {ID: "a", TaskGroups: []*api.TaskGroup{{Name: "g", Count: 1, Tasks: many(9_000)}, {Name: "h", Count: 1, Tasks: many(9_000)}, {Name: "i", Count: 1, Tasks: many(9_000)}}},
	} {
		if _, err := open(t).Register(t.Context(), &api.JobRegisterRequest{Job: j}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for name, j := range map[string]*api.Job{"counts": sized(49_999, 1), "canaries": update(50_000)} {
		if _, err := open(t).Register(t.Context(), &api.JobRegisterRequest{Job: j}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is kept from the version before counts, too: else each registration would add to it.
func TestCountsThatAreKeptAreBounded(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.register(sized(50_000))
	_, err := r.Register(t.Context(), &api.JobRegisterRequest{Job: sized(0, 50_000), PreserveCounts: true})
	if err == nil || !strings.Contains(err.Error(), "100000 allocations") {
		t.Errorf("the job asks for 100,000 allocations: %v", err)
	}
}

// demanding is a job of two groups, whose last tasks ask for that much.
func demanding(tasks, cpu int) *api.Job {
	j := sized(1, 1)
	for _, g := range j.TaskGroups {
		g.Tasks = many(tasks)
		g.Tasks[tasks-1].Resources = &api.Resources{CPU: cpu, MemoryMB: 100}
	}
	return j
}

func TestResourcesOfManyTasksAreKept(t *testing.T) {
	t.Parallel()
	const tasks = 500
	r := open(t)
	r.register(demanding(tasks, 7))
	if _, err := r.Register(t.Context(), &api.JobRegisterRequest{Job: demanding(tasks, 8), PreserveResources: true}); err != nil {
		t.Fatal(err)
	}
	if cpu := r.get("a").TaskGroups[1].Tasks[tasks-1].Resources.CPU; cpu != 7 {
		t.Errorf("cpu = %d", cpu)
	}
}

// The work must not grow with the square of the tasks: it is done in Apply, on all servers and at each start.
func BenchmarkResourcesOfManyTasksAreKept(b *testing.B) {
	for _, tasks := range []int{1_000, 10_000} {
		b.Run(strconv.Itoa(tasks), func(b *testing.B) {
			r := open(b)
			r.register(demanding(tasks, 7))
			for b.Loop() {
				if _, err := r.Register(b.Context(), &api.JobRegisterRequest{Job: demanding(tasks, 8), PreserveResources: true}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestALargeSourceIsNotKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit, size int
		kept        bool
	}{{0, 999_996, true}, {0, 999_997, false}, {100, 96, true}, {100, 97, false}, {-1, 1, false}} {
		r := open(t)
		r.Limits.SourceMax = c.limit
		out, err := r.Register(t.Context(), &api.JobRegisterRequest{Job: web(), Submission: &api.JobSubmission{Source: strings.Repeat("#", c.size), Format: "hcl2"}})
		if err != nil {
			t.Fatal(err)
		}
		if s := r.store.Read().JobSubmission("default", "web", 0); (s != nil) != c.kept || strings.Contains(out.Warnings, "is not kept") == c.kept {
			t.Errorf("%d bytes of %d: kept %v, warnings %q", c.size, c.limit, s != nil, out.Warnings)
		}
	}
}
