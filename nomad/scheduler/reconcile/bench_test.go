package reconcile_test

import (
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/cputimetest"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// large is a group of n running allocations on n nodes, in the order of their random ids.
func large(n int) reconcile.Input {
	j := &api.Job{ID: "j", Type: api.JobTypeService, JobModifyIndex: 5, CreateIndex: 1, TaskGroups: []*api.TaskGroup{{
		Name: "g", Count: n, Update: &api.UpdateStrategy{MaxParallel: n},
		Tasks: []*api.Task{{Name: "t", Driver: "d", Env: map[string]string{"a": "b"}, Resources: &api.Resources{CPU: 1}}},
	}}}
	nodes := map[string]*api.Node{}
	healthy := true
	in := reconcile.Input{
		Job: j, Group: "g", Now: epoch, EvalID: "now",
		Node:    func(id string) *api.Node { return nodes[id] },
		CanStay: func(*api.Allocation) bool { return true },
		Pending: func(string) bool { return false },
	}
	for i := range n {
		id := fmt.Sprintf("node-%d", i)
		nodes[id] = &api.Node{ID: id, Status: api.NodeStatusReady}
		in.Allocs = append(in.Allocs, &api.Allocation{
			ID: fmt.Sprint(i), Name: reconcile.Name("j", "g", i*7919%n), NodeID: id, Job: j, TaskGroup: "g",
			DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusRunning, DeploymentID: "before",
			DeploymentStatus: &api.AllocDeploymentStatus{Healthy: &healthy},
		})
	}
	return in
}

// changed is the job in a new version.
func changed(in reconcile.Input, change func(*api.TaskGroup)) reconcile.Input {
	j, g, t := *in.Job, *in.Job.TaskGroups[0], *in.Job.TaskGroups[0].Tasks[0]
	j.Version, j.JobModifyIndex, j.TaskGroups, g.Tasks = j.Version+1, j.JobModifyIndex+10, []*api.TaskGroup{&g}, []*api.Task{&t}
	change(&g)
	in.Job = &j
	return in
}

func BenchmarkGroup(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 50_000} {
		base := large(n)
		for _, c := range []struct {
			name string
			in   reconcile.Input
		}{
			{"noop", base},
			{"destructive", changed(base, func(g *api.TaskGroup) { g.Tasks[0].User = "other" })},
			{"inplace", changed(base, func(g *api.TaskGroup) { g.Tasks[0].KillTimeout = 9 })},
			{"scale", changed(base, func(g *api.TaskGroup) { g.Count += n / 2 })},
			{"down", changed(base, func(g *api.TaskGroup) { g.Count /= 2 })},
			{"stop", func() reconcile.Input { in := base; in.Job = nil; return in }()},
		} {
			b.Run(fmt.Sprintf("%s/n=%d", c.name, n), func(b *testing.B) {
				b.ReportAllocs()
				before := cputimetest.Process()
				for b.Loop() {
					reconcile.Group(c.in)
				}
				b.ReportMetric(float64((cputimetest.Process()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			})
		}
	}
}
