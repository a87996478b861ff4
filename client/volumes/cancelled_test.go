package volumes_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/volumes"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// A mount that is given up while it waits for its turn answers the error, and mounts nothing later.
func TestCancelledMountIsNeverSuccess(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	r.driver.Script(fake.Fault{RPC: "NodeStageVolume", Times: 1, Hang: true})
	first, giveUp := context.WithCancel(r.ctx())
	var up sync.WaitGroup
	up.Go(func() { _, _ = r.svc.Up(first, workload("w1")) })
	if err := r.driver.Await(r.ctx(), "NodeStageVolume", 1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.ctx(), 50*time.Millisecond)
	defer cancel()
	got, err := r.svc.Up(ctx, workload("w2"))
	if !errors.Is(err, context.DeadlineExceeded) || got != nil {
		t.Errorf("a mount that was given up answers %v, %v", got, err)
	}
	giveUp()
	up.Wait()
	r.down("w1")
	r.down("w2")
	if n := r.count("NodePublishVolume"); n != 0 {
		t.Errorf("published %d times after both gave up", n)
	}
}

// Agents that are stopped and started again report no plugin as unhealthy.
// A plugin goes on with a call although the agent that made it has died: what that mounts is taken down too.
func TestCallOfADeadAgentThatEndsLateLeavesNoMount(t *testing.T) {
	inVirtualTime(t, fake.Config{Deaf: true, NoStage: true}, func(t *testing.T, v *virtual) {
		v.driver.Script(fake.Fault{RPC: "NodePublishVolume", Times: 1, Delay: time.Second})
		ctx, die := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _, _ = v.svc.Up(ctx, workload("w")) }()
		v.until("it is being mounted", func() bool { return v.count("NodePublishVolume") == 1 })
		die()
		<-done
		v.driver.Storage().Excuse("fake-node", true)
		v.stop()
		v.start()
		v.knows()
		v.untilReleased("w")
		time.Sleep(time.Minute)
		v.clean()
	})
}

func TestAgentRestartReportsNoUnhealthyPlugin(t *testing.T) {
	var mu sync.Mutex
	watching, unhealthy := false, 0
	r := newRigWith(t, fake.Config{}, func(c *volumes.Config) {
		tell := c.Updated
		c.Updated = func(controllers, nodes map[string]*api.CSIInfo) {
			mu.Lock()
			if watching && (nodes["p"] == nil || !nodes["p"].Healthy || controllers["p"] == nil || !controllers["p"].Healthy) {
				unhealthy++
			}
			mu.Unlock()
			tell(controllers, nodes)
		}
	})
	p := r.plugIn("plug")
	r.healthy()
	r.up(workload("w"))
	mu.Lock()
	watching = true
	mu.Unlock()
	for range 3 {
		r.restart()
		r.healthy()
		r.supervise(p)
		if err := r.driver.Await(r.ctx(), "Probe", len(r.driver.Calls("Probe"))+2); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if unhealthy != 0 {
		t.Errorf("%d reports of an unhealthy plugin", unhealthy)
	}
	watching = false
	r.down("w")
}
