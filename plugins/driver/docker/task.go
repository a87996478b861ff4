package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/engine"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/logs"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/usage"
)

const (
	// retryPause is the pause before an engine that does not answer is asked again.
	retryPause = time.Second
	// drainMax bounds how long the exit of a task is held back for the rest of its output.
	drainMax = 5 * time.Second
	// killedCode is the exit code of a container that SIGKILL has ended.
	killedCode = 128 + int(syscall.SIGKILL)
)

// task is a task that this driver knows.
type task struct {
	id, container, image, stopSignal string
	// joined is the container through which the task is in the network of its allocation; empty when it is not.
	joined  string
	started time.Time
	tty     bool
	record  record
	// ran is set when the container was started.
	ran bool

	// process is the first process of the container; nil when the engine is on another host.
	process *os.File
	// killed is set when the driver kills the container.
	killed atomic.Bool
	// exited is set when the container has ended, which the guard of its lease may not have reported yet.
	exited   atomic.Bool
	cancel   context.CancelFunc
	watching sync.WaitGroup
	// done is closed when exit and finished are known and do not change any more.
	done     chan struct{}
	exit     driver.Exit
	finished time.Time

	meter usage.Meter
}

// inspect asks the engine about a container.
func (d *Driver) inspect(ctx context.Context, id string) (*task, error) {
	c, err := d.look(ctx, id)
	if err != nil {
		return nil, err
	}
	t := &task{id: c.Config.Labels[labelTask], container: c.ID, joined: c.Config.Labels[labelJoined], image: c.Image, stopSignal: c.Config.StopSignal, tty: c.Config.Tty, done: make(chan struct{})}
	if _, err := driver.ParseSignal(t.stopSignal); err != nil {
		t.stopSignal = defaultSignal
	}
	if err := json.Unmarshal([]byte(c.Config.Labels[labelRecord]), &t.record); err != nil {
		return nil, fault.New(fault.NotFound, "container %.12s has no record of this driver", id)
	}
	t.started, _ = time.Parse(time.RFC3339Nano, c.State.StartedAt)
	t.process = engine.Process(c.State.Pid, c.ID)
	t.ran = c.State.Status != container.StateCreated && t.started.Unix() > 0
	return t, nil
}

func (d *Driver) look(ctx context.Context, id string) (*container.InspectResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	reply, err := d.engine.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return nil, engine.Error(fmt.Sprintf("look at container %.12s", id), err)
	}
	if reply.Container.Config == nil || reply.Container.State == nil {
		return nil, fault.New(fault.Unavailable, "the engine does not describe container %.12s", id)
	}
	return &reply.Container, nil
}

// watch waits for the end of the container, and copies its output. It continues when the engine is back.
func (d *Driver) watch(ctx context.Context, t *task) {
	exited, drained := make(chan struct{}), make(chan struct{})
	copying, stop := context.WithCancel(ctx)
	defer stop()
	if t.record.Logs.Disabled {
		close(drained)
	} else {
		f := logs.Follower{
			Engine: d.engine, Container: t.container, TTY: t.tty, Logs: t.record.Logs, Task: t.record.Name,
			Cursor: d.cursorPath(t.container), Exited: exited, Log: d.log,
		}
		t.watching.Go(func() {
			defer close(drained)
			f.Run(copying)
		})
	}
	for {
		x, finished, ok := d.outcome(ctx, t)
		if ctx.Err() != nil {
			return
		}
		if !ok {
			if !pause(ctx, retryPause) {
				return
			}
			continue
		}
		t.exit, t.finished = x, finished
		break
	}
	close(exited)
	t.exited.Store(true)
	select {
	case <-drained:
	case <-time.After(drainMax):
		d.log.Warn("the last output of a task is copied later", "task", t.id)
	case <-ctx.Done():
	}
	t.exit.LeaseEnded = d.endGuard(ctx, t.id)
	if t.exit.LeaseEnded {
		t.exit.OOMKilled, t.exit.Err = false, leaseEnded
	}
	if ctx.Err() != nil {
		return
	}
	close(t.done)
	<-drained
}

// outcome waits for the end of the container; it reports false when the engine could not say.
func (d *Driver) outcome(ctx context.Context, t *task) (driver.Exit, time.Time, bool) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	wait := d.engine.ContainerWait(waiting, t.container, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-wait.Result:
	case <-wait.Error: // what it means is found out below
	case <-ctx.Done():
		return driver.Exit{}, time.Time{}, false
	}
	c, err := d.look(ctx, t.container)
	switch {
	case errors.Is(err, fault.NotFound):
		return driver.Exit{Code: -1, Err: "the container was removed by others"}, time.Now(), true
	case err != nil || c.State.Running:
		return driver.Exit{}, time.Time{}, false
	}
	finished, err := time.Parse(time.RFC3339Nano, c.State.FinishedAt)
	if err != nil || finished.Unix() <= 0 {
		finished = time.Now()
	}
	if s := c.State; s.ExitCode == killedCode && !s.OOMKilled && !t.killed.Load() {
		s.OOMKilled = engine.OutOfMemory(ctx, d.engine, t.container, t.started)
	}
	return exitOf(c.State), finished, true
}

func exitOf(s *container.State) driver.Exit {
	x := driver.Exit{Code: s.ExitCode, Err: s.Error}
	if signal := s.ExitCode - 128; signal > 0 && signal <= int(syscall.SIGSYS) {
		x.Signal = signal
	}
	if s.OOMKilled && s.ExitCode != 0 {
		x.OOMKilled, x.Err = true, "OOM Killed"
	}
	return x
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func (t *task) ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

func (t *task) wait(ctx context.Context) error {
	if t.ended() {
		return nil
	}
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for task %s: %w", t.id, ctx.Err())
	}
}

// waitFor reports whether the task has exited within the time.
func (t *task) waitFor(ctx context.Context, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return t.wait(ctx) == nil
}
