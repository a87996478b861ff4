// Package bench prints the figures of the whole system: one agent, real plugin, real processes.
package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// BenchmarkVolumeLife prints stop -> claim free, and what a volume adds to submit -> running. Both are told by
// the servers: nothing is asked in intervals.
func BenchmarkVolumeLife(b *testing.B) {
	const rounds = 25
	a := kit.Start(b)
	b.ReportMetric(ms(a.Plugin("hp")), "ms-plugin-healthy")
	a.CreateVolume("hp", "v1")
	var with, without, free []time.Duration
	for i := range rounds {
		plain, job := fmt.Sprintf("plain-%d", i), fmt.Sprintf("volume-%d", i)
		began := time.Now()
		a.Register(kit.ShellJob(plain, "exec sleep 1000"))
		becomes(a, plain, "running")
		without = append(without, time.Since(began))
		a.Stop(plain, false)
		becomes(a, plain, "complete")

		began = time.Now()
		a.Register(kit.WithVolume(kit.ShellJob(job, "exec sleep 1000"), "v1"))
		becomes(a, job, "running")
		with = append(with, time.Since(began))
		began = time.Now()
		a.Stop(job, false)
		freed(a, 1)
		free = append(free, time.Since(began))
		becomes(a, job, "complete")
	}
	b.ReportMetric(ms(median(without)), "ms-running-plain")
	b.ReportMetric(ms(median(with)), "ms-running-with-volume")
	b.ReportMetric(ms(median(with)-median(without)), "ms-volume-costs")
	b.ReportMetric(ms(median(free)), "ms-stop-to-free")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkHundredVolumes prints the time for 100 jobs with a volume each, at once.
func BenchmarkHundredVolumes(b *testing.B) {
	const n = 100
	a := kit.Start(b)
	a.Plugin("hp")
	for i := range n {
		a.CreateVolume("hp", fmt.Sprintf("v%d", i))
	}
	used := -onProcessor(a.PID())
	began := time.Now()
	all(n, func(i int) {
		a.Register(kit.WithVolume(kit.ShellJob(fmt.Sprintf("j%d", i), "exec sleep 1000"), fmt.Sprintf("v%d", i)))
	})
	count(a, n, "running")
	b.ReportMetric(ms(time.Since(began)), "ms-all-running")
	began = time.Now()
	all(n, func(i int) { a.Stop(fmt.Sprintf("j%d", i), false) })
	freed(a, n)
	b.ReportMetric(ms(time.Since(began)), "ms-all-freed")
	used += onProcessor(a.PID())
	b.ReportMetric(ms(used)/n, "cpu-ms-agent/job")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkTaskStarts prints tasks per second for 200 raw_exec sleeps, what a start costs in processor time of the agent
// and the supervising process, which says more on a busy machine, and the memory beside each.
func BenchmarkTaskStarts(b *testing.B) { taskStarts(b, "raw_exec") }

// BenchmarkIsolatedStarts prints the same for exec, whose tasks have limits.
func BenchmarkIsolatedStarts(b *testing.B) { taskStarts(b, "exec") }

func taskStarts(b *testing.B, driver string) {
	b.Helper()
	const n = 200
	a := kit.Start(b)
	job := kit.ShellJob("sleeps", "exec sleep 1000")
	job.TaskGroups[0].Tasks[0].Driver = driver
	want := n
	job.TaskGroups[0].Count = &want
	keyed(a)
	used := -onProcessor(a.PID())
	began := time.Now()
	a.Register(job)
	count(a, n, "running")
	b.ReportMetric(n/time.Since(began).Seconds(), "tasks/s")
	used += onProcessor(a.PID())
	b.ReportMetric(ms(used)/n, "cpu-ms-agent/task")
	pss, supervisors := 0, 0
	for _, pid := range a.Supervisors() {
		used += onProcessor(pid)
		pss += a.MemoryKB(pid, "Pss")
		supervisors++
	}
	b.ReportMetric(ms(used)/n, "cpu-ms/task")
	b.ReportMetric(float64(supervisors)/n, "supervisors/task")
	b.ReportMetric(float64(pss)/float64(max(supervisors, 1)), "KiB-PSS/supervisor")
	b.ReportMetric(0, "ns/op")
	a.Stop("sleeps", true)
}

// BenchmarkDeafStop prints how long after its kill_timeout a task is complete that ignores all signals, and has children
// in other sessions that do.
func BenchmarkDeafStop(b *testing.B) {
	const rounds, timeout = 5, time.Second
	a := kit.Start(b)
	var over []time.Duration
	for i := range rounds {
		id := fmt.Sprintf("deaf-%d", i)
		job := kit.ShellJob(id, `trap "" INT TERM HUP QUIT; for i in 1 2 3; do (trap "" INT TERM HUP QUIT; setsid sleep 1000 &); done; while :; do sleep 1000; done`)
		limit := timeout
		job.TaskGroups[0].Tasks[0].KillTimeout = &limit
		a.Register(job)
		becomes(a, id, "running")
		began := time.Now()
		a.Stop(id, false)
		becomes(a, id, "complete")
		over = append(over, time.Since(began)-timeout)
	}
	if left := a.Processes(); len(left) > 0 {
		b.Errorf("processes %v are left", left)
	}
	b.ReportMetric(ms(slices.Max(over)), "ms-over-kill-timeout")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkShortTasks prints how many raw_exec batch tasks that do nothing a node gets through in a second, until the
// servers know that all are complete: 50 jobs that are dispatched at once, and one job that has 200.
func BenchmarkShortTasks(b *testing.B) {
	b.Run("jobs=50", func(b *testing.B) {
		const n, rounds = 50, 6
		a := kit.Start(b)
		job := kit.ShellJob("short", "exit 0")
		kind := "batch"
		job.Type, job.ParameterizedJob = &kind, &api.ParameterizedJobConfig{Payload: "optional"}
		a.Register(job)
		keyed(a)
		var took []time.Duration
		used := -onProcessor(a.PID())
		for round := range rounds {
			began := time.Now()
			all(n, func(int) {
				if _, _, err := a.API.Jobs().Dispatch("short", nil, nil, "", nil); err != nil {
					b.Error(err)
				}
			})
			count(a, n*(round+1), "complete")
			took = append(took, time.Since(began))
		}
		used += onProcessor(a.PID())
		b.ReportMetric(n/median(took).Seconds(), "tasks/s")
		b.ReportMetric(ms(used)/(n*rounds), "cpu-ms-agent/task")
		b.ReportMetric(0, "ns/op")
	})
	b.Run("count=200", func(b *testing.B) {
		const n = 200
		a := kit.Start(b)
		job := kit.ShellJob("short", "exit 0")
		kind, want := "batch", n
		job.Type, job.TaskGroups[0].Count = &kind, &want
		keyed(a)
		used := -onProcessor(a.PID())
		began := time.Now()
		a.Register(job)
		count(a, n, "complete")
		b.ReportMetric(n/time.Since(began).Seconds(), "tasks/s")
		used += onProcessor(a.PID())
		b.ReportMetric(ms(used)/n, "cpu-ms-agent/task")
		b.ReportMetric(0, "ns/op")
	})
}

// keyed waits until the new cluster has its first key: to make one takes as much of a processor as many starts, now more
// and now less.
func keyed(a *kit.Agent) {
	a.Until(30*time.Second, "a root key", func() error {
		keys, _, err := a.API.Keyring().List(nil)
		switch {
		case err != nil && strings.Contains(err.Error(), "404"): // older programs, to compare with, make none
			return nil
		case err == nil && len(keys) == 0:
			return errors.New("there is none")
		}
		return err
	})
}

// onProcessor is the processor time that a process has used.
func onProcessor(pid int) (used time.Duration) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, name := range threads {
		var ns int64
		if body, err := os.ReadFile(name); err == nil {
			_, _ = fmt.Sscan(string(body), &ns)
		}
		used += time.Duration(ns)
	}
	return used
}

func all(n int, do func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { do(i) })
	}
	group.Wait()
}

// told repeats a blocking query, which the servers answer when there is news, until it says that it is done.
func told(a *kit.Agent, what string, ask func(*api.QueryOptions) (state string, done bool, meta *api.QueryMeta, err error)) {
	q := &api.QueryOptions{WaitTime: 5 * time.Second}
	a.Until(60*time.Second, what, func() error {
		for end := time.Now().Add(60 * time.Second); time.Now().Before(end); {
			state, done, meta, err := ask(q)
			if err != nil {
				return err
			}
			if done {
				return nil
			}
			if meta.LastIndex == q.WaitIndex {
				return errors.New(state)
			}
			q.WaitIndex = meta.LastIndex
		}
		return errors.New("news without end")
	})
}

// becomes waits until the only allocation of the job has the client status.
func becomes(a *kit.Agent, job, status string) {
	told(a, job+" to be "+status, func(q *api.QueryOptions) (string, bool, *api.QueryMeta, error) {
		allocs, meta, err := a.API.Jobs().Allocations(job, true, q)
		if err != nil || len(allocs) != 1 {
			return fmt.Sprintf("%d allocations", len(allocs)), false, meta, err
		}
		return allocs[0].ClientStatus, allocs[0].ClientStatus == status, meta, nil
	})
}

// freed waits until nobody holds any of the n volumes.
func freed(a *kit.Agent, n int) {
	told(a, "all volumes to be free", func(q *api.QueryOptions) (string, bool, *api.QueryMeta, error) {
		volumes, meta, err := a.API.CSIVolumes().List(q)
		held := 0
		for _, v := range volumes {
			held += v.CurrentReaders + v.CurrentWriters
		}
		return fmt.Sprintf("%d of %d are held", held, len(volumes)), held == 0 && len(volumes) == n, meta, err
	})
}

// count waits until n allocations of other jobs than the plugin's have the client status.
func count(a *kit.Agent, n int, status string) {
	told(a, "all to be "+status, func(q *api.QueryOptions) (string, bool, *api.QueryMeta, error) {
		allocs, meta, err := a.API.Allocations().List(q)
		found := 0
		for _, s := range allocs {
			if s.ClientStatus == status && s.JobID != "hp" {
				found++
			}
		}
		return fmt.Sprintf("%d of %d", found, n), found == n, meta, err
	})
}
