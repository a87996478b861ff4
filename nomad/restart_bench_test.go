package nomad_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
)

// Shape of the cluster that is restarted.
const (
	restartJobs  = 1_000
	restartEach  = 5
	restartNodes = 50
)

// BenchmarkRestartOfAllServers stops three servers at once, which hold 1,000 jobs with 5,000 allocations,
// and prints how long it takes until one leads again and until the first write.
func BenchmarkRestartOfAllServers(b *testing.B) {
	all := trio(b)
	for i := range restartNodes {
		register := &api.NodeRegisterRequest{Node: &api.Node{
			ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), SecretID: fmt.Sprint("secret-", i), Name: fmt.Sprint("n", i), Datacenter: "dc1", Status: api.NodeStatusReady,
			Attributes: map[string]string{"driver.mock_driver": "1", "kernel.name": "linux"},
			Drivers:    map[string]*api.DriverInfo{"mock_driver": {Detected: true, Healthy: true}},
			NodeResources: &api.NodeResources{
				Cpu: api.NodeCpuResources{CpuShares: 100_000}, Memory: api.NodeMemoryResources{MemoryMB: 1 << 20}, Disk: api.NodeDiskResources{DiskMB: 1 << 20},
			},
		}}
		if _, err := wire.NodeRegister.Call(b.Context(), all[0].server.Caller(), register); err != nil {
			b.Fatal(err)
		}
	}
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := w; i < restartJobs; i += 8 {
				j := job(fmt.Sprint("job-", i))
				j.TaskGroups[0].Count = restartEach
				j.TaskGroups[0].Tasks[0].Driver = "mock_driver"
				if _, err := wire.JobRegister.Call(b.Context(), all[0].server.Caller(), &api.JobRegisterRequest{Job: j}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if n := placed(b, all[0], restartJobs*restartEach); n < restartJobs*restartEach {
		b.Fatalf("%d allocations", n)
	}
	var leads, writes time.Duration
	rounds := 0
	for b.Loop() {
		b.StopTimer()
		for _, h := range all {
			h.stop()
		}
		b.StartTimer()
		began := time.Now()
		for _, h := range all {
			h.start()
		}
		until(b, "a leader", func() bool { leader, _ := split(all); return leader != nil })
		leads += time.Since(began)
		all[0].write(fmt.Sprint("after-", rounds))
		writes += time.Since(began)
		rounds++
		if n := placed(b, all[0], restartJobs*restartEach); n < restartJobs*restartEach {
			b.Fatalf("%d allocations after the restart", n)
		}
	}
	b.ReportMetric(leads.Seconds()/float64(rounds), "s-to-leader")
	b.ReportMetric(writes.Seconds()/float64(rounds), "s-to-write")
}

// placed waits until so many allocations exist and counts them.
func placed(b *testing.B, h *host, want int) (n int) {
	ctx, cancel := context.WithTimeout(b.Context(), 2*time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		out, err := wire.AllocList.Call(ctx, h.server.Caller(), &api.AllocListRequest{QueryOptions: api.QueryOptions{Namespace: api.AllNamespaces}})
		if err == nil {
			if n = len(out.Allocs); n >= want {
				return n
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	return n
}
