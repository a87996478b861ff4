package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
	"github.com/open-nomad/open-nomad/internal/soaktest"
)

// TestVolumesAcrossLeaders gives one volume on from job to job while leaders are killed.
func TestVolumesAcrossLeaders(t *testing.T) {
	t.Parallel()
	rounds := soaktest.Rounds(2, 8)
	c := newCluster(t)
	any := c.leader(nil)
	plugin := any.PluginJob("hp", "-attach")
	args := plugin.TaskGroups[0].Tasks[0].Config["args"].([]string)
	storage := c.lab.Path("storage")
	args[2] = storage
	any.Register(plugin)
	any.PluginOn("hp", 1)
	any.CreateVolume("hp", "v1")
	any.Register(kit.WithVolume(kit.ShellJob("w0", forever), "v1"))
	holder := any.Running("w0", 1)
	var slowest time.Duration
	for i := range rounds {
		old := c.leader(nil)
		name, next := fmt.Sprint("w", i), fmt.Sprint("w", i+1)
		old.Register(kit.WithVolume(kit.ShellJob(next, forever), "v1"))
		old.Stop(name, true)
		old.Kill9()
		began := time.Now()
		now := c.leader(old)
		after := now.Running(next, 1)
		slowest = max(slowest, time.Since(began))
		if after.ID == holder.ID {
			t.Errorf("round %d: the holder is still %s", i, holder.ID)
		}
		if n := now.Claimed("v1"); n != 1 {
			t.Errorf("round %d: %d claims", i, n)
		}
		holder = after
		old.Restart()
		c.leader(nil)
		c.voters(3)
	}
	now := c.leader(nil)
	now.Stop(fmt.Sprint("w", rounds), false)
	now.Free("v1")
	now.Until(10*time.Second, "the mounts to go", func() error {
		if m := c.node.VolumeMounts(); len(m) > 0 {
			return fmt.Errorf("mounted are %q", m)
		}
		return nil
	})
	noOverlap(t, journalIn(t, storage))
	noViolationIn(t, storage)
	kit.Measured(t, fmt.Sprintf("cluster | stop a holder and kill the leader; the waiting job runs | slowest %v of %d | <= 5 s", slowest.Round(time.Millisecond), rounds))
	if !kit.Within(slowest, 5*time.Second, 1) {
		t.Errorf("the waiting job ran after %v", slowest)
	}
}

// TestFollowerCannotReachTheLeader asks a follower that is partitioned from the leader only.
func TestFollowerCannotReachTheLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	leader := c.leader(nil)
	var apart *kit.Host
	for _, s := range c.servers {
		if s != leader {
			apart = s
			break
		}
	}
	c.lab.Partition(leader, apart)
	c.write("during")
	c.lab.Join(leader, apart)
	apart.Until(20*time.Second, "the follower to know", func() error {
		_, _, err := apart.API.Jobs().Info("during", nil)
		return err
	})
	c.leader(nil)
	c.voters(3)
}
