package bench_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/rest"
)

func jobOf(id, kind string, count int) *api.Job {
	return &api.Job{
		ID: id, Name: id, Type: kind, Datacenters: []string{"*"},
		TaskGroups: []*api.TaskGroup{{
			Name: "g", Count: count, EphemeralDisk: &api.EphemeralDisk{SizeMB: 10},
			Tasks: []*api.Task{{Name: "t", Driver: "mock_driver", Resources: &api.Resources{CPU: 1, MemoryMB: 10}}},
		}},
	}
}

// placed registers the job and waits until its evaluation is complete.
func (a *agent) placed(tb testing.TB, j *api.Job) {
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	out, err := a.RegisterJob(ctx, &api.JobRegisterRequest{Job: j})
	if err != nil {
		tb.Errorf("register %s: %v", j.ID, err)
		return
	}
	a.evaluated(ctx, tb, out.EvalID, out.EvalCreateIndex)
}

// evaluated waits until an evaluation that was made at the index is complete.
func (a *agent) evaluated(ctx context.Context, tb testing.TB, id string, index uint64) {
	q := rest.Query{Index: index, Wait: 30 * time.Second}
	for {
		e, meta, err := a.Eval(ctx, id, q)
		if err != nil {
			tb.Errorf("evaluation %s: %v", id, err)
			return
		}
		if e.Status == api.EvalStatusComplete {
			if len(e.FailedTGAllocs) > 0 {
				tb.Errorf("evaluation %s placed not all", id)
			}
			return
		}
		q.Index = meta.Index
	}
}

// together calls do n times, width at once, and answers how long each call took.
func together(n, width int, do func(i int)) []time.Duration {
	took := make([]time.Duration, n)
	var next atomic.Int64
	var group sync.WaitGroup
	for range width {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				began := time.Now()
				do(i)
				took[i] = time.Since(began)
			}
		})
	}
	group.Wait()
	return took
}

func quantile(d []time.Duration, q float64) float64 {
	d = slices.Clone(d)
	slices.Sort(d)
	return float64(d[min(int(q*float64(len(d))), len(d)-1)].Microseconds()) / 1000
}

// BenchmarkRegister registers jobs with one allocation, 64 at once, until each is placed, and prints what share of the
// rate with the fewest nodes is left with the most.
func BenchmarkRegister(b *testing.B) {
	const fewest, most = 100, 2000
	rates := map[int][]float64{} // by nodes, one of each round
	for _, nodes := range []int{fewest, 1000, most} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			a := startServer(b)
			newSwarm(b, a, nodes)
			const jobs = 2000
			together(200, 64, func(i int) { a.placed(b, jobOf(fmt.Sprint("warm", i), api.JobTypeService, 1)) })
			a.profile(b)
			began, cpu, own, entries := time.Now(), a.cpu(), cpuOf(os.Getpid()), a.applied(b)
			took := together(jobs, 64, func(i int) { a.placed(b, jobOf(fmt.Sprint("j", i), api.JobTypeService, 1)) })
			rate := jobs / time.Since(began).Seconds()
			rates[nodes] = append(rates[nodes], rate)
			b.ReportMetric(rate, "jobs/s")
			b.ReportMetric(quantile(took, 0.5), "ms-p50")
			b.ReportMetric(quantile(took, 0.99), "ms-p99")
			b.ReportMetric(float64((a.cpu()-cpu).Microseconds())/1000/jobs, "cpu-ms/job")
			b.ReportMetric(float64((cpuOf(os.Getpid())-own).Microseconds())/1000/jobs, "driver-cpu-ms/job")
			b.ReportMetric(float64(a.applied(b)-entries)/jobs, "raft-entries/job")
			b.ReportMetric(a.memoryMB("VmRSS"), "MB-server")
			b.ReportMetric(0, "ns/op")
		})
	}
	rounds := min(len(rates[fewest]), len(rates[most]))
	if rounds == 0 {
		return
	}
	round := 0
	b.Run(fmt.Sprintf("nodes=%d-of-%d", most, fewest), func(b *testing.B) {
		i := round % rounds
		round++
		b.ReportMetric(100*rates[most][i]/rates[fewest][i], "%-of-jobs/s")
		b.ReportMetric(0, "ns/op")
	})
}

// BenchmarkDispatch runs instances of a parameterised job, 64 at once, and prints how many a second were taken, and how
// many were placed, run and dead.
func BenchmarkDispatch(b *testing.B) {
	b.Run("nodes=1000", func(b *testing.B) {
		a := startServer(b)
		newSwarm(b, a, 1000)
		j := jobOf("template", api.JobTypeBatch, 1)
		j.ParameterizedJob = &api.ParameterizedJobConfig{Payload: "optional"}
		if _, err := a.RegisterJob(b.Context(), &api.JobRegisterRequest{Job: j}); err != nil {
			b.Fatal(err)
		}
		const instances = 5000
		a.profile(b)
		began, cpu := time.Now(), a.cpu()
		together(instances, 64, func(int) {
			if _, err := a.DispatchJob(b.Context(), "template", &api.JobDispatchRequest{JobID: "template"}); err != nil {
				b.Error(err)
			}
		})
		b.ReportMetric(instances/time.Since(began).Seconds(), "taken/s")
		a.until(b, "all are dead", func(ctx context.Context) bool {
			s, _, err := a.JobSummary(ctx, j.ID, rest.Query{})
			return err == nil && s.Children != nil && s.Children.Dead == instances
		})
		b.ReportMetric(instances/time.Since(began).Seconds(), "finished/s")
		b.ReportMetric(float64((a.cpu()-cpu).Microseconds())/1000/instances, "cpu-ms/job")
		b.ReportMetric(0, "ns/op")
	})
}

// BenchmarkRun registers one job with many allocations and waits until all run.
func BenchmarkRun(b *testing.B) {
	for _, c := range []struct {
		name  string
		count int
		with  func(*api.Job)
	}{
		{"plain", 5000, nil},
		{"spread", 300, func(j *api.Job) { j.Spreads = []*api.Spread{{Attribute: "${meta.rack}", Weight: 100}} }},
		{"spread", 5000, func(j *api.Job) { j.Spreads = []*api.Spread{{Attribute: "${meta.rack}", Weight: 100}} }},
	} {
		b.Run(fmt.Sprintf("%s/nodes=1000/count=%d", c.name, c.count), func(b *testing.B) {
			a := startServer(b)
			newSwarm(b, a, 1000)
			a.profile(b)
			var placed, running []time.Duration
			cpu := a.cpu()
			for i := range 5 {
				j := jobOf(fmt.Sprint("j", i), api.JobTypeService, c.count)
				if c.with != nil {
					c.with(j)
				}
				began := time.Now()
				a.placed(b, j)
				placed = append(placed, time.Since(began))
				a.until(b, "all run", func(ctx context.Context) bool {
					s, _, err := a.JobSummary(ctx, j.ID, rest.Query{})
					return err == nil && s.Summary["g"].Running == c.count
				})
				running = append(running, time.Since(began))
			}
			b.ReportMetric(float64(c.count)*1000/quantile(placed, 0.5), "placed/s")
			b.ReportMetric(float64(c.count)*1000/quantile(running, 0.5), "running/s")
			b.ReportMetric(float64((a.cpu()-cpu).Microseconds())/float64(5*c.count), "cpu-us/alloc")
			b.ReportMetric(a.memoryMB("VmRSS"), "MB-server")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkHold registers 10,000 jobs with 5 allocations each and prints the highest resident memory that the server ever
// had, until four readers have read the lists of allocations and jobs.
func BenchmarkHold(b *testing.B) {
	const jobs, each = 10_000, 5
	a := startServer(b)
	newSwarm(b, a, 1000)
	a.profile(b)
	began := time.Now()
	together(jobs, 64, func(i int) { a.placed(b, jobOf(fmt.Sprint("j", i), api.JobTypeService, each)) })
	b.ReportMetric(jobs*each/time.Since(began).Seconds(), "placed/s")
	a.heap()
	b.ReportMetric(a.memoryMB("VmHWM"), "MB-peak-before-lists")
	cpu := a.cpu()
	lists := together(40, 4, func(int) {
		if _, _, err := a.Allocs(b.Context(), rest.Query{}); err != nil {
			b.Error(err)
		}
		if _, _, err := a.Jobs(b.Context(), rest.Query{}); err != nil {
			b.Error(err)
		}
	})
	b.ReportMetric(quantile(lists, 0.5), "ms-lists")
	b.ReportMetric(float64((a.cpu()-cpu).Microseconds())/1000/40, "cpu-ms/lists")
	b.ReportMetric(a.memoryMB("VmHWM"), "MB-peak")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkRestartOfAllServers kills three servers at once, which hold 10,000 jobs with 50,000 allocations, and prints how
// long it takes from the start of the processes until one leads and until the first write succeeds.
func BenchmarkRestartOfAllServers(b *testing.B) {
	const jobs, each = 10_000, 5
	all := startServers(b, 3)
	newSwarm(b, all[0], 1000)
	register := func(id string, count int) { // a leader may change on a busy machine
		all[0].until(b, "a write", func(ctx context.Context) bool {
			_, err := all[0].RegisterJob(ctx, &api.JobRegisterRequest{Job: jobOf(id, api.JobTypeService, count)})
			return err == nil
		})
	}
	holds := func() {
		all[0].until(b, "all allocations", func(ctx context.Context) bool {
			time.Sleep(time.Second)
			allocs, _, err := all[0].Allocs(ctx, rest.Query{})
			return err == nil && len(allocs) >= jobs*each
		})
	}
	together(jobs, 64, func(i int) { register(fmt.Sprint("j", i), each) })
	holds()
	for _, a := range all {
		a.kill()
	}
	began, cpu := time.Now(), time.Duration(0)
	for _, a := range all {
		a.launch(b)
	}
	all[0].led(b)
	b.ReportMetric(time.Since(began).Seconds(), "s-to-leader")
	register("after", 1)
	b.ReportMetric(time.Since(began).Seconds(), "s-to-write")
	for _, a := range all {
		cpu += a.cpu()
	}
	b.ReportMetric(cpu.Seconds(), "cpu-s")
	holds()
	b.ReportMetric(0, "ns/op")
}
