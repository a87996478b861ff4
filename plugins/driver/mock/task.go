package mock

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/plugins/driver"
)

type task struct {
	id      string
	config  *taskConfig
	started time.Time
	ends    time.Time
	done    chan struct{}
	once    sync.Once

	mu       sync.Mutex
	timers   []*time.Timer
	exit     driver.Exit // valid after done is closed, as is finished
	finished time.Time
}

func newTask(id string, c *taskConfig, started, ends time.Time) *task {
	return &task{id: id, config: c, started: started, ends: ends, done: make(chan struct{})}
}

// arm sets the timer of the task's own end.
func (t *task) arm() {
	if left := time.Until(t.ends); left > 0 {
		t.after(left, t.natural())
		return
	}
	t.end(t.natural())
}

func (t *task) natural() driver.Exit {
	x := driver.Exit{Code: t.config.ExitCode, Signal: t.config.ExitSignal, Err: t.config.ExitErrMsg}
	if x.Signal != 0 && x.Code == 0 {
		x.Code = 128 + x.Signal
	}
	return x
}

func (t *task) after(d time.Duration, x driver.Exit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timers = append(t.timers, time.AfterFunc(d, func() { t.end(x) }))
}

func killed(sig syscall.Signal) driver.Exit {
	return driver.Exit{Code: 128 + int(sig), Signal: int(sig)}
}

// signal ends the task as the signal would, after kill_after.
func (t *task) signal(sig syscall.Signal) {
	switch {
	case sig == 0 || t.config.SignalErr != "" && sig != syscall.SIGKILL:
	case t.config.KillAfter > 0 && sig != syscall.SIGKILL:
		t.after(t.config.KillAfter, killed(sig))
	default:
		t.end(killed(sig))
	}
}

// end decides how the task ended; only the first call does.
func (t *task) end(x driver.Exit) {
	t.once.Do(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, timer := range t.timers {
			timer.Stop()
		}
		t.exit, t.finished = x, time.Now()
		close(t.done)
	})
}

func (t *task) wait(ctx context.Context) error {
	select {
	case <-t.done:
		return nil
	default:
	}
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for task %s: %w", t.id, ctx.Err())
	}
}

func (t *task) status() *driver.Status {
	s := &driver.Status{ID: t.id, State: driver.StateRunning, StartedAt: t.started, Attributes: map[string]string{}}
	select {
	case <-t.done:
		x := t.exit
		s.State, s.Exit, s.FinishedAt = driver.StateExited, &x, t.finished
	default:
	}
	return s
}
