package nomad_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
)

// roomy registers a node that has space for many small tasks.
func (h *host) roomy(id string) {
	h.t.Helper()
	n := &api.Node{
		ID: id, SecretID: "5" + id[1:], Name: "n", Datacenter: "dc1", Status: api.NodeStatusReady,
		Attributes: map[string]string{"driver.raw_exec": "1", "kernel.name": "linux"},
		Drivers:    map[string]*api.DriverInfo{"raw_exec": {Detected: true, Healthy: true}},
		NodeResources: &api.NodeResources{
			Cpu: api.NodeCpuResources{CpuShares: 100_000}, Memory: api.NodeMemoryResources{MemoryMB: 1 << 20}, Disk: api.NodeDiskResources{DiskMB: 1 << 20},
		},
	}
	until(h.t, "a node is registered", func() bool {
		_, err := wire.NodeRegister.Call(h.t.Context(), h.server.Caller(), &api.NodeRegisterRequest{Node: n})
		return err == nil
	})
}

// placedOnce waits until each job has its allocations and fails when one has more.
func (h *host) placedOnce(jobs []string, count int) {
	h.t.Helper()
	for _, id := range jobs {
		names := map[string]int{}
		until(h.t, fmt.Sprintf("%d allocations of %s", count, id), func() bool {
			got, err := wire.JobAllocations.Call(h.t.Context(), h.server.Caller(), &api.JobRequest{JobID: id})
			if err != nil {
				return false
			}
			clear(names)
			for _, a := range got.Allocs {
				names[a.Name]++
			}
			return len(names) >= count
		})
		for name, n := range names {
			if n != 1 || len(names) != count {
				h.t.Fatalf("%s: %d allocations, %s %d times", id, len(names), name, n)
			}
		}
	}
}

func (h *host) runs(id string, count int) {
	h.t.Helper()
	j := job(id)
	j.TaskGroups[0].Count = count
	until(h.t, "write "+id, func() bool {
		ctx, cancel := context.WithTimeout(h.t.Context(), 30*time.Second)
		defer cancel()
		_, err := wire.JobRegister.Call(ctx, h.server.Caller(), &api.JobRegisterRequest{Job: j})
		return err == nil
	})
}

func TestFollowersScheduleForALeaderWithoutWorkers(t *testing.T) {
	t.Parallel()
	all := trio(t)
	leader, followers := led(t, all)
	if err := leader.server.Schedulers().SetWorkerConfig(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	leader.roomy("00000000-0000-4000-8000-000000000001")
	var jobs []string
	for i := range 10 {
		jobs = append(jobs, fmt.Sprint("away-", i))
		leader.runs(jobs[i], 3)
	}
	leader.placedOnce(jobs, 3)
	if got := leader.server.Schedulers().Workers(); len(got) != 0 {
		t.Errorf("the leader has workers: %+v", got[0])
	}
	// The next leader hands out what the one before left, and its own workers help.
	leader.runs("between", 3)
	leader.stop()
	followers[0].runs("after", 3)
	followers[0].placedOnce(append(jobs, "between", "after"), 3)
}

func TestWorkersTakeTheirKindsOnly(t *testing.T) {
	t.Parallel()
	a := newHost(t, "a", "global", 1)
	a.conf.Schedulers = []string{api.JobTypeBatch}
	a.start()
	a.roomy("00000000-0000-4000-8000-000000000001")
	a.runs("service", 1)
	b := job("batch")
	b.Type = api.JobTypeBatch
	if _, err := wire.JobRegister.Call(t.Context(), a.server.Caller(), &api.JobRegisterRequest{Job: b}); err != nil {
		t.Fatal(err)
	}
	a.placedOnce([]string{"batch"}, 1)
	if got, err := wire.JobAllocations.Call(t.Context(), a.server.Caller(), &api.JobRequest{JobID: "service"}); err != nil || len(got.Allocs) != 0 {
		t.Fatalf("the service job was placed too: %v %v", got, err)
	}
	w := a.server.Schedulers()
	if err := w.SetWorkerConfig(t.Context(), 2, []string{"batch", "strange"}); err == nil {
		t.Error("a scheduler that does not exist was taken")
	}
	if err := w.SetWorkerConfig(t.Context(), 2, []string{"batch", "service"}); err != nil {
		t.Fatal(err)
	}
	a.placedOnce([]string{"service"}, 1)
	if n, kinds := w.WorkerConfig(); n != 2 || len(kinds) != 3 {
		t.Errorf("%d workers for %v", n, kinds)
	}
}
