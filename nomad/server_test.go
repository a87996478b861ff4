package nomad_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad"
)

// start runs a server and waits until it leads.
func start(tb testing.TB, dir string) (s *nomad.Server, stop func()) {
	tb.Helper()
	return launch(tb, nomad.Config{Name: "s1", Region: "global", Datacenter: "dc1", Dir: dir, Bind: "127.0.0.1:0", Log: hclog.NewNullLogger()})
}

func launch(tb testing.TB, conf nomad.Config) (s *nomad.Server, stop func()) {
	tb.Helper()
	s, err := nomad.New(conf)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			tb.Errorf("server: %v", err)
		}
	}
	tb.Cleanup(stop)
	limit, end := context.WithTimeout(context.Background(), 30*time.Second)
	defer end()
	for !leads(limit, s) {
		if limit.Err() != nil {
			tb.Fatal("no leader")
		}
	}
	return s, stop
}

// leads asks for something that only a leader answers; with access control it refuses.
func leads(ctx context.Context, s *nomad.Server) bool {
	_, err := wire.JobList.Call(ctx, s.Caller(), &api.JobListRequest{})
	return err == nil || errors.Is(err, fault.Denied)
}

func job(id string) *api.Job {
	return &api.Job{ID: id, TaskGroups: []*api.TaskGroup{{Name: "g", Count: 1, Tasks: []*api.Task{{Name: "t", Driver: "raw_exec"}}}}}
}

func TestJobsSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	s, stop := start(t, dir)
	reply, err := wire.JobRegister.Call(t.Context(), s.Caller(), &api.JobRegisterRequest{Job: job("keep")})
	if err != nil {
		t.Fatal(err)
	}
	if reply.EvalID == "" || reply.JobModifyIndex == 0 {
		t.Fatalf("reply is %+v", reply)
	}
	stop()
	s, _ = start(t, dir)
	got, err := wire.JobGet.Call(t.Context(), s.Caller(), &api.JobRequest{JobID: "keep"})
	if err != nil || got.Job == nil || got.Job.TaskGroups[0].RestartPolicy == nil {
		t.Fatalf("after the restart: %+v, %v", got, err)
	}
}

func TestJobWithoutNodesIsBlocked(t *testing.T) {
	s, _ := start(t, "")
	reply, err := wire.JobRegister.Call(t.Context(), s.Caller(), &api.JobRegisterRequest{Job: job("lonely")})
	if err != nil {
		t.Fatal(err)
	}
	q := api.QueryOptions{MaxWait: 30 * time.Second}
	for {
		got, err := wire.EvalGet.Call(t.Context(), s.Caller(), &api.EvalRequest{EvalID: reply.EvalID, QueryOptions: q})
		if err != nil {
			t.Fatal(err)
		}
		if got.Eval.Status == api.EvalStatusComplete {
			if got.Eval.BlockedEval == "" || got.Eval.FailedTGAllocs["g"] == nil {
				t.Fatalf("evaluation is %+v", got.Eval)
			}
			return
		}
		if got.Index == q.MinIndex {
			t.Fatalf("evaluation stays %s", got.Eval.Status)
		}
		q.MinIndex = got.Index
	}
}

func TestSecondServerIsRefusedTheDirectory(t *testing.T) {
	dir := t.TempDir()
	start(t, dir)
	_, err := nomad.New(nomad.Config{Name: "s2", Region: "global", Datacenter: "dc1", Dir: dir, Bind: "127.0.0.1:0", Log: hclog.NewNullLogger()})
	if err == nil {
		t.Fatal("two servers share a directory")
	}
}

// BenchmarkLeader prints how long a development server takes from nothing to its first answer.
func BenchmarkLeader(b *testing.B) {
	for b.Loop() {
		_, stop := start(b, "")
		b.StopTimer()
		stop()
		b.StartTimer()
	}
}

func TestDeploymentsAreListed(t *testing.T) {
	s, _ := start(t, "")
	if _, err := wire.DeploymentList.Call(t.Context(), s.Caller(), &api.QueryOptions{}); err != nil {
		t.Error(err)
	}
	if got, err := wire.DeploymentGet.Call(t.Context(), s.Caller(), &api.DeploymentRequest{DeploymentID: "none"}); err != nil || got.Deployment != nil {
		t.Errorf("%+v %v", got, err)
	}
}
