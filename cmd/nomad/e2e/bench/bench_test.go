// Package bench prints the figures of the whole system: one agent, real plugin, real processes.
package bench

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// BenchmarkVolumeLife prints stop -> claim free, and what a volume adds to submit -> running.
func BenchmarkVolumeLife(b *testing.B) {
	a := kit.Start(b)
	b.ReportMetric(ms(a.Plugin("hp")), "ms-plugin-healthy")
	a.CreateVolume("hp", "v1")
	var with, without, free []time.Duration
	for i := range 15 {
		began := time.Now()
		plain := fmt.Sprintf("plain-%d", i)
		a.Register(kit.ShellJob(plain, "exec sleep 1000"))
		a.Running(plain, 1)
		without = append(without, time.Since(began))
		a.Stop(plain, true)

		began = time.Now()
		job := fmt.Sprintf("volume-%d", i)
		a.Register(kit.WithVolume(kit.ShellJob(job, "exec sleep 1000"), "v1"))
		a.Running(job, 1)
		with = append(with, time.Since(began))
		a.Stop(job, true)
		free = append(free, a.Free("v1"))
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
	began := time.Now()
	all(n, func(i int) {
		a.Register(kit.WithVolume(kit.ShellJob(fmt.Sprintf("j%d", i), "exec sleep 1000"), fmt.Sprintf("v%d", i)))
	})
	count(a, n, "running")
	b.ReportMetric(ms(time.Since(began)), "ms-all-running")
	began = time.Now()
	all(n, func(i int) { a.Stop(fmt.Sprintf("j%d", i), false) })
	a.Until(60*time.Second, "all volumes to be free", func() error {
		volumes, _, err := a.API.CSIVolumes().List(nil)
		if err != nil {
			return err
		}
		held := 0
		for _, v := range volumes {
			held += v.CurrentReaders + v.CurrentWriters
		}
		if held > 0 {
			return fmt.Errorf("%d are held", held)
		}
		return nil
	})
	b.ReportMetric(ms(time.Since(began)), "ms-all-freed")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkTaskStarts prints tasks per second for 200 raw_exec sleeps, and the memory beside each.
func BenchmarkTaskStarts(b *testing.B) {
	const n = 200
	a := kit.Start(b)
	b.ReportMetric(float64(a.MemoryKB(a.PID(), "Rss"))/1024, "MiB-idle-agent")
	job := kit.ShellJob("sleeps", "exec sleep 1000")
	want := n
	job.TaskGroups[0].Count = &want
	began := time.Now()
	a.Register(job)
	count(a, n, "running")
	b.ReportMetric(n/time.Since(began).Seconds(), "tasks/s")
	pss, supervisors := 0, 0
	for _, pid := range a.Supervisors() {
		pss += a.MemoryKB(pid, "Pss")
		supervisors++
	}
	b.ReportMetric(float64(supervisors)/n, "supervisors/task")
	b.ReportMetric(float64(pss)/float64(max(supervisors, 1)), "KiB-PSS/supervisor")
	b.ReportMetric(0, "ns/op")
	a.Stop("sleeps", true)
}

// BenchmarkShortTasks prints how many raw_exec batch tasks that do nothing a node gets through in a second, from
// the registration of one job with all of them to the servers' word that all are complete.
func BenchmarkShortTasks(b *testing.B) {
	const n = 200
	a := kit.Start(b)
	job := kit.ShellJob("short", "exit 0")
	kind, want := "batch", n
	job.Type, job.TaskGroups[0].Count = &kind, &want
	began := time.Now()
	a.Register(job)
	count(a, n, "complete")
	b.ReportMetric(n/time.Since(began).Seconds(), "tasks/s")
	b.ReportMetric(0, "ns/op")
}

func all(n int, do func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { do(i) })
	}
	group.Wait()
}

func count(a *kit.Agent, n int, status string) {
	a.Until(60*time.Second, "all to be "+status, func() error {
		allocs, _, err := a.API.Allocations().List(nil)
		if err != nil {
			return err
		}
		found := 0
		for _, s := range allocs {
			if s.ClientStatus == status && s.JobID != "hp" {
				found++
			}
		}
		if found != n {
			return fmt.Errorf("%d of %d", found, n)
		}
		return nil
	})
}
