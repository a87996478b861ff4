package bench

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// BenchmarkAgentRestart prints how long after its start an agent that was killed reads the resource usage of its 300 tasks, so
// that it supervises all of them again, and how many were restarted. Templates and checks of some of them must continue.
func BenchmarkAgentRestart(b *testing.B) {
	const plain, served = 290, 10
	a := kit.Start(b)
	variable := func(value string) {
		if _, _, err := a.API.Variables().Update(&api.Variable{Path: "nomad/jobs/served", Items: api.VariableItems{"v": value}}, nil); err != nil {
			b.Fatal(err)
		}
	}
	variable("before")
	for id, n := range map[string]int{"plain": plain, "served": served} {
		job := kit.ShellJob(id, "exec sleep 1000")
		job.TaskGroups[0].Count = &n
		if id == "served" {
			serve(job.TaskGroups[0].Tasks[0])
		}
		a.Register(job)
	}
	count(a, plain+served, "running")
	allocs := append(a.Allocs("plain", "running"), a.Allocs("served", "running")...)
	a.Kill()
	began := time.Now()
	a.Spawn()
	for _, alloc := range allocs {
		soon(b, func() bool {
			var usage api.AllocResourceUsage
			_, err := a.API.Raw().Query("/v1/client/allocation/"+alloc.ID+"/stats", &usage, nil)
			return err == nil && len(usage.Tasks) == 1
		})
	}
	b.ReportMetric(ms(time.Since(began)), "ms-reattached")
	back := time.Now()
	variable("after")
	restarts := 0
	for _, alloc := range append(a.Allocs("plain", "running"), a.Allocs("served", "running")...) {
		restarts += int(alloc.TaskStates["main"].Restarts)
		if alloc.JobID == "served" {
			soon(b, func() bool { return rendered(a, alloc.ID) == "after" && checked(a, alloc.ID, back) })
		}
	}
	if n := len(a.Allocs("plain", "running")) + len(a.Allocs("served", "running")); n != plain+served {
		b.Errorf("%d allocations run, want %d", n, plain+served)
	}
	b.ReportMetric(float64(restarts), "restarts")
	b.ReportMetric(0, "ns/op")
	a.Stop("plain", true)
	a.Stop("served", true)
}

// serve gives a task a template and a service with a check.
func serve(t *api.Task) {
	text, to, mode := `{{ with nomadVar "nomad/jobs/served" }}{{ .v }}{{ end }}`, "local/v", "noop"
	t.Templates = []*api.Template{{EmbeddedTmpl: &text, DestPath: &to, ChangeMode: &mode}}
	t.Services = []*api.Service{{
		Name: "served", Provider: "nomad",
		Checks: []api.ServiceCheck{{Name: "c", Type: "script", Command: "/bin/true", Interval: time.Second, Timeout: 10 * time.Second}},
	}}
}

// rendered is the content of the file that the template of an allocation writes.
func rendered(a *kit.Agent, alloc string) string {
	r, err := a.API.Raw().Response("/v1/client/fs/cat/"+alloc+"?path=main/local/v", nil)
	if err != nil {
		return err.Error()
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// checked reports whether the check of an allocation has passed after a time.
func checked(a *kit.Agent, alloc string, after time.Time) bool {
	var all map[string]api.AllocCheckStatus
	if _, err := a.API.Raw().Query("/v1/client/allocation/"+alloc+"/checks", &all, nil); err != nil {
		return false
	}
	for _, c := range all {
		if fmt.Sprint(c.Status) == "success" && c.Timestamp > after.Unix() {
			return true
		}
	}
	return false
}
