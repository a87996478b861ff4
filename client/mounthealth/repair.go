package mounthealth

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

const (
	// failSignal is what tasks get whose volume wants a signal.
	failSignal = "SIGHUP"
	// repairWait bounds one attempt to publish a failed mount again.
	repairWait = 2 * time.Minute
	// tasksWait bounds asking the tasks for a signal or restart.
	tasksWait = 10 * time.Second
)

// repair does with one failed mount what its volume's policy wants. An error means: later again.
func (m *Monitor) repair(ctx context.Context, key string) error {
	p, ok := m.conf.Volumes.Find(key)
	if !ok {
		return nil
	}
	reason := fmt.Sprintf("the mount of volume %s was dead", p.VolumeID)
	if p.policy() == api.MountDeadSignal {
		ctx, cancel := context.WithTimeout(ctx, tasksWait)
		defer cancel()
		if err := m.conf.Tasks.Signal(ctx, p.AllocID, p.VolumeID, failSignal, reason); err != nil {
			m.log.Warn("signal tasks of a dead mount", "volume_id", p.VolumeID, "alloc_id", p.AllocID, "error", err)
		}
		return nil
	}
	if err := m.republish(ctx, p); err != nil {
		if ctx.Err() == nil && m.tracker.news(key, err.Error()) {
			m.log.Warn("publish a failed mount again", "volume_id", p.VolumeID, "alloc_id", p.AllocID, "error", err)
			m.conf.Tasks.Tell(p.AllocID, p.VolumeID, EventUnhealthy,
				fmt.Sprintf("volume %s cannot be published again yet: %s", p.VolumeID, err))
		}
		return err
	}
	return m.refresh(ctx, key, reason)
}

func (m *Monitor) republish(ctx context.Context, p Mount) error {
	ctx, cancel := context.WithTimeout(ctx, repairWait)
	defer cancel()
	done, err := m.conf.Volumes.Republish(ctx, p.Key)
	if err != nil || !done {
		return err
	}
	m.log.Info("published a failed mount again", "volume_id", p.VolumeID, "alloc_id", p.AllocID, "path", p.Path)
	if _, recovered, _ := m.tracker.record(p.Key, Healthy, time.Now()); recovered {
		m.tellHealthy(p)
	}
	return nil
}

// refresh restarts the tasks that still have the mount from before a repair.
func (m *Monitor) refresh(ctx context.Context, key, reason string) error {
	p, ok := m.conf.Volumes.Find(key)
	if !ok || !p.Mounted || !p.Stale {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tasksWait)
	defer cancel()
	if err := m.conf.Tasks.Restart(ctx, p.AllocID, p.VolumeID, p.policy() == api.MountDeadRestart, reason); err != nil {
		return fmt.Errorf("restart tasks: %w", err)
	}
	return m.conf.Volumes.Refreshed(ctx, key)
}
