package checks_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/checks"
)

// BenchmarkChecks runs 1,000 http checks with an interval of 10 s, ten per allocation, and measures the processor time of this
// process, which is also the server.
func BenchmarkChecks(b *testing.B) {
	const allocs, perAlloc, interval, window = 100, 10, 10 * time.Second, 20 * time.Second
	var hits atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer server.Close()
	var shift atomic.Int64
	p := checks.New(checks.Config{
		Replace: func(*api.Allocation, string) func(string) string { return func(s string) string { return s } },
		Address: func() string { return "127.0.0.1" },
		Jitter: func(most time.Duration) time.Duration {
			return time.Duration(shift.Add(7919)) * time.Millisecond % most
		},
	})
	var specs []api.ServiceCheck
	for i := range perAlloc {
		specs = append(specs, api.ServiceCheck{Name: fmt.Sprint("c", i), Type: "http", Path: "/"})
	}
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(b.Context())
	defer func() { cancel(); running.Wait() }()
	for i := range allocs {
		a := with(server.Listener.Addr().String(), append([]api.ServiceCheck(nil), specs...)...)
		a.ID = fmt.Sprint("a", i)
		for _, s := range a.Group().Services {
			for k := range s.Checks {
				s.Checks[k].Interval = interval
			}
		}
		g := &group{}
		g.become(api.TaskStateRunning, 0)
		set := p.Set(a, g, func() {})
		running.Go(func() { set.Run(ctx) })
	}
	time.Sleep(interval)
	for b.Loop() {
		hits.Store(0)
		began := cpu(b)
		time.Sleep(window)
		share := float64(cpu(b)-began) / float64(window)
		if n, want := hits.Load(), int64(allocs*perAlloc*(window/interval)); n < want*9/10 {
			b.Fatalf("%d probes, want %d", n, want)
		}
		b.ReportMetric(100*share, "%-of-a-core")
	}
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
