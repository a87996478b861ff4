package e2e

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// ok ends the test when a call of the official client fails.
func ok[T any](t *testing.T) func(T, *api.QueryMeta, error) T {
	return func(v T, _ *api.QueryMeta, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// wrote is ok for writes.
func wrote[T any](t *testing.T) func(T, *api.WriteMeta, error) T {
	return func(v T, _ *api.WriteMeta, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// refused wants an error answer with the code and the text.
func refused(t *testing.T, err error, code int, text string) {
	t.Helper()
	var answer api.UnexpectedResponseError
	if !errors.As(err, &answer) {
		t.Errorf("want code %d %q, got %v", code, text, err)
		return
	}
	if answer.StatusCode() != code || !strings.Contains(answer.Body(), text) {
		t.Errorf("want code %d %q, got %d %q", code, text, answer.StatusCode(), answer.Body())
	}
}

// TestOfficialClient drives one agent through the official Go client.
func TestOfficialClient(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	a.Plugin("hp")
	a.CreateVolume("hp", "v1")
	a.Register(kit.WithVolume(kit.ShellJob("web", "echo hello; echo oops >&2; trap 'echo usr1' USR1; while true; do sleep 0.1; done"), "v1"))
	a.Running("web", 1)
	for name, walk := range map[string]func(*testing.T, *kit.Agent){
		"jobs": walkJobs, "evaluations": walkEvaluations, "files": walkFiles, "volumes": walkVolumes,
		"snapshots": walkSnapshots, "cluster": walkCluster, "search": walkSearch, "errors": walkErrors, "blocking": walkBlocking,
	} {
		t.Run(name, func(t *testing.T) { walk(t, a) })
	}
	t.Run("allocations", func(t *testing.T) { walkAllocations(t, a) })
	t.Run("nodes", func(t *testing.T) { walkNodes(t, a) })
}

func walkJobs(t *testing.T, a *kit.Agent) {
	jobs := a.API.Jobs()
	const text = `job "parsed" {
  group "g" {
    task "t" {
      driver = "raw_exec"
      config { command = "/bin/sleep" args = ["1000"] }
      resources { cpu = 1 memory = 10 }
    }
  }
}`
	spaced := strings.NewReplacer("config { command = \"/bin/sleep\" args = [\"1000\"] }", "config {\n command = \"/bin/sleep\"\n args = [\"1000\"]\n }",
		"resources { cpu = 1 memory = 10 }", "resources {\n cpu = 1\n memory = 10\n }").Replace(text)
	job, err := jobs.ParseHCL(spaced, true)
	if err != nil {
		t.Fatal(err)
	}
	if *job.ID != "parsed" || *job.TaskGroups[0].Count != 1 || job.TaskGroups[0].Tasks[0].Driver != "raw_exec" || *job.Priority != 50 {
		t.Errorf("parsed: %+v", job)
	}
	if v := wrote[*api.JobValidateResponse](t)(jobs.Validate(job, nil)); !v.DriverConfigValidated || len(v.ValidationErrors) != 0 {
		t.Errorf("validate: %+v", v)
	}
	plan := wrote[*api.JobPlanResponse](t)(jobs.Plan(job, true, nil))
	if plan.Diff == nil || plan.Diff.Type != "Added" || plan.Annotations.DesiredTGUpdates["g"].Place != 1 || plan.JobModifyIndex != 0 {
		t.Errorf("plan of a new job: %+v", plan)
	}
	reg := wrote[*api.JobRegisterResponse](t)(jobs.RegisterOpts(job, &api.RegisterOptions{
		EnforceIndex: true, Submission: &api.JobSubmission{Source: spaced, Format: "hcl2"},
	}, nil))
	if reg.EvalID == "" || reg.JobModifyIndex == 0 {
		t.Errorf("register: %+v", reg)
	}
	a.Running("parsed", 1)
	_, _, err = jobs.RegisterOpts(job, &api.RegisterOptions{EnforceIndex: true, ModifyIndex: 1}, nil)
	if err == nil || !strings.Contains(err.Error(), "Enforcing job modify index") {
		t.Errorf("an old index was taken: %v", err)
	}
	if sub := ok[*api.JobSubmission](t)(jobs.Submission("parsed", 0, nil)); sub.Source != spaced || sub.Format != "hcl2" {
		t.Errorf("submission: %+v", sub)
	}
	job.Meta = map[string]string{"release": "2"}
	plan = wrote[*api.JobPlanResponse](t)(jobs.Plan(job, true, nil))
	if plan.Diff.Type != "Edited" || plan.JobModifyIndex != reg.JobModifyIndex {
		t.Errorf("plan of a change: %+v, index %d", plan.Diff, plan.JobModifyIndex)
	}
	a.Register(job)
	versions, diffs, _, err := jobs.Versions("parsed", true, nil)
	if err != nil || len(versions) != 2 || *versions[0].Version != 1 || len(diffs) != 1 || diffs[0].Type != "Edited" {
		t.Errorf("versions: %d, diffs %+v, %v", len(versions), diffs, err)
	}
	info := ok[*api.Job](t)(jobs.Info("parsed", nil))
	if info.Meta["release"] != "2" || *info.Status != "running" || *info.SubmitTime == 0 || info.TaskGroups[0].MaxClientDisconnect != nil && *info.TaskGroups[0].MaxClientDisconnect != 0 {
		t.Errorf("info: %+v", info)
	}
	if _, _, err = jobs.Register(info, nil); err != nil {
		t.Errorf("a job that was read is not taken back: %v", err)
	}
	if versions, _, _, _ = jobs.Versions("parsed", false, nil); len(versions) != 2 {
		t.Errorf("%d versions after the same job again", len(versions))
	}
	a.Until(20*time.Second, "the summary", func() error {
		s, _, err := jobs.Summary("parsed", nil)
		if err == nil && s.Summary["g"].Running != 1 {
			err = fmt.Errorf("%+v", s)
		}
		return err
	})
	if evals := ok[[]*api.Evaluation](t)(jobs.Evaluations("parsed", nil)); !slices.ContainsFunc(evals, func(e *api.Evaluation) bool { return e.ID == reg.EvalID }) {
		t.Errorf("%d evaluations without %s", len(evals), reg.EvalID)
	}
	if list := ok[[]*api.JobListStub](t)(jobs.PrefixList("par")); len(list) != 1 || list[0].ID != "parsed" || list[0].JobSummary == nil {
		t.Errorf("prefix: %+v", list)
	}
	if list := ok[[]*api.JobListStub](t)(jobs.List(&api.QueryOptions{Filter: `Type == "system"`})); len(list) != 1 || list[0].ID != "hp" {
		t.Errorf("filter: %+v", list)
	}
	if eval := wrote[string](t)(jobs.Deregister("parsed", true, nil)); eval == "" {
		t.Error("deregister made no evaluation")
	}
	_, _, err = jobs.Info("parsed", nil)
	refused(t, err, 404, "job not found")
}

func walkEvaluations(t *testing.T, a *kit.Agent) {
	numbers, _, err := a.API.Operator().MetricsSummary(nil)
	if err != nil || !slices.ContainsFunc(numbers.Gauges, func(g api.GaugeValue) bool { return strings.HasSuffix(g.Name, ".nomad.blocked_evals.missed_wakes") }) {
		t.Errorf("metrics %+v, %v", numbers, err)
	}
	stub := a.Running("web", 1)
	e := ok[*api.Evaluation](t)(a.API.Evaluations().Info(stub.EvalID, nil))
	if e.JobID != "web" || e.Status != "complete" || e.TriggeredBy != "job-register" {
		t.Errorf("evaluation: %+v", e)
	}
	if allocs := ok[[]*api.AllocationListStub](t)(a.API.Evaluations().Allocations(e.ID, nil)); len(allocs) != 1 || allocs[0].ID != stub.ID {
		t.Errorf("its allocations: %+v", allocs)
	}
	page, meta, err := a.API.Evaluations().List(&api.QueryOptions{PerPage: 1})
	if err != nil || len(page) != 1 || meta.NextToken == "" {
		t.Fatalf("page: %d, %+v, %v", len(page), meta, err)
	}
	next := ok[[]*api.Evaluation](t)(a.API.Evaluations().List(&api.QueryOptions{PerPage: 1, NextToken: meta.NextToken}))
	if len(next) != 1 || next[0].ID == page[0].ID {
		t.Errorf("next page: %+v", next)
	}
}

func walkAllocations(t *testing.T, a *kit.Agent) {
	allocs, stub := a.API.Allocations(), a.Running("web", 1)
	alloc := ok[*api.Allocation](t)(allocs.Info(stub.ID, nil))
	if *alloc.Resources.CPU != 1 || *alloc.TaskResources["main"].MemoryMB != 10 || *alloc.Job.ID != "web" || alloc.TaskStates["main"].State != "running" {
		t.Errorf("allocation: %+v", alloc)
	}
	a.Until(10*time.Second, "memory in the statistics", func() error {
		stats, err := allocs.Stats(alloc, nil)
		if err == nil && (stats.ResourceUsage == nil || stats.Tasks["main"] == nil || stats.ResourceUsage.MemoryStats.RSS == 0 && stats.ResourceUsage.MemoryStats.Usage == 0) {
			err = fmt.Errorf("%+v", stats)
		}
		return err
	})
	if err := allocs.Signal(alloc, nil, "main", "SIGUSR1"); err != nil {
		t.Fatal(err)
	}
	says(t, a, alloc.ID, "usr1")
	if err := allocs.Restart(alloc, "main", nil); err != nil {
		t.Fatal(err)
	}
	a.Until(20*time.Second, "the restart", func() error {
		now, _, err := allocs.Info(alloc.ID, nil)
		if err == nil && (now.TaskStates["main"].Restarts != 1 || now.TaskStates["main"].State != "running") {
			err = fmt.Errorf("%+v", now.TaskStates["main"])
		}
		return err
	})
	if err := allocs.Restart(alloc, "nobody", nil); err == nil {
		t.Error("a task that is not there was restarted")
	}
	if stop := wroteStop(t, a, alloc); stop.EvalID == "" {
		t.Errorf("stop: %+v", stop)
	}
	a.Until(30*time.Second, "a replacement", func() error {
		if now := a.Allocs("web", "running"); len(now) != 1 || now[0].ID == alloc.ID {
			return fmt.Errorf("%d run", len(now))
		}
		return nil
	})
}

func wroteStop(t *testing.T, a *kit.Agent, alloc *api.Allocation) *api.AllocStopResponse {
	t.Helper()
	stop, err := a.API.Allocations().Stop(alloc, nil)
	if err != nil {
		t.Fatal(err)
	}
	return stop
}

func walkFiles(t *testing.T, a *kit.Agent) {
	fs := a.API.AllocFS()
	alloc := ok[*api.Allocation](t)(a.API.Allocations().Info(a.Running("web", 1).ID, nil))
	names := map[string]bool{}
	for _, f := range ok[[]*api.AllocFileInfo](t)(fs.List(alloc, "/", nil)) {
		names[f.Name] = f.IsDir
	}
	if !names["alloc"] || !names["main"] {
		t.Errorf("files: %v", names)
	}
	const log = "alloc/logs/main.stdout.0"
	a.Until(10*time.Second, "the log file", func() error {
		f, _, err := fs.Stat(alloc, log, nil)
		if err == nil && f.Size < 6 {
			err = fmt.Errorf("%d bytes", f.Size)
		}
		return err
	})
	read := func(r io.ReadCloser, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		body, _ := io.ReadAll(r)
		return string(body)
	}
	if s := read(fs.Cat(alloc, log, nil)); !strings.HasPrefix(s, "hello\n") {
		t.Errorf("cat: %q", s)
	}
	if s := read(fs.ReadAt(alloc, log, 1, 4, nil)); s != "ello" {
		t.Errorf("read: %q", s)
	}
	if _, err := fs.Cat(alloc, "../../../../etc/passwd", nil); err == nil {
		t.Error("a file outside of the allocation was read")
	}
	cancel := make(chan struct{})
	defer close(cancel)
	frames, errs := fs.Logs(alloc, true, "main", "stderr", "start", 0, cancel, nil)
	for got := ""; !strings.Contains(got, "oops"); {
		select {
		case f := <-frames:
			got += string(f.Data)
		case err := <-errs:
			t.Fatal(err)
		case <-time.After(30 * time.Second):
			t.Fatalf("followed: %q", got)
		}
	}
}
