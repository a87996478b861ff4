package external

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/external/protocol"
	"github.com/open-nomad/open-nomad/plugins/program"
	"github.com/open-nomad/open-nomad/plugins/program/schema"
)

// Config is one driver.
type Config struct {
	// Name is the name of the driver in job files.
	Name string
	// Path is the executable, Args its arguments.
	Path string
	Args []string
	// Config is the config of the plugin block of the agent's configuration.
	Config map[string]any
	// StateDir is a directory for the driver alone. It survives restarts.
	StateDir string
	// Timeout bounds the start of the process and calls that have no bound of their own; 0 means 10 s.
	Timeout time.Duration
}

const (
	// startWait bounds the start of a task, which may load images.
	startWait = 15 * time.Minute
	// settleMax is the longest time between two attempts to destroy a task whose start was not answered.
	settleMax = 30 * time.Second
)

// Driver runs tasks by a process. Use New.
type Driver struct {
	conf Config
	log  hclog.Logger

	begin sync.Once
	ctx   context.Context
	stop  context.CancelFunc
	ended chan struct{}

	mu sync.Mutex
	// live is the process that gets calls; nil while there is none.
	live *process
	info *protocol.InfoResponse
	// report is the last one, of the process or about it; nil before the first.
	report  *driver.Fingerprint
	changed chan struct{}
	// known are the handles of tasks, by their ids; lost are those that a new process did not find.
	known map[string]*driver.Handle
	lost  map[string]bool
	// uncertain are tasks whose start had no result: the next process destroys them.
	uncertain map[string]bool
	events    map[string]func(string)
}

var (
	_ driver.Driver = (*Driver)(nil)
	_ driver.Execer = (*Driver)(nil)
)

// New makes the driver; its process starts with the first call.
func New(c Config, log hclog.Logger) *Driver {
	c.Timeout = cmp.Or(c.Timeout, program.Timeout)
	d := &Driver{
		conf: c, log: log.Named("plugin." + c.Name), ended: make(chan struct{}), changed: make(chan struct{}), known: map[string]*driver.Handle{},
		lost: map[string]bool{}, uncertain: map[string]bool{}, events: map[string]func(string){},
	}
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d
}

// Name is the name of the driver in job files.
func (d *Driver) Name() string { return d.conf.Name }

// Close ends the process; tasks run on.
func (d *Driver) Close() error {
	d.stop()
	d.begin.Do(func() { close(d.ended) })
	<-d.ended
	return nil
}

// Capabilities returns what the process reports. It waits for its first start for a short time.
func (d *Driver) Capabilities() driver.Capabilities {
	info := d.described()
	if info == nil {
		return driver.Capabilities{Isolation: driver.IsolationNone}
	}
	c := info.GetCapabilities()
	return driver.Capabilities{Mounts: c.GetMounts(), Signals: c.GetSignals(), Exec: c.GetExec(), Isolation: driver.Isolation(c.GetIsolation())}
}

// described returns what a process has reported about itself; nil when none has.
func (d *Driver) described() *protocol.InfoResponse {
	ctx, cancel := context.WithTimeout(d.ctx, d.conf.Timeout)
	defer cancel()
	_, _ = d.running(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.info
}

// ValidateConfig checks the config block of a task against the schema of the process, and by the process.
func (d *Driver) ValidateConfig(config map[string]any) error {
	encoded, err := d.encode(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(d.ctx, d.conf.Timeout)
	defer cancel()
	return d.call(ctx, func(ctx context.Context, c protocol.DriverClient) error {
		_, err := c.ValidateConfig(ctx, &protocol.ValidateConfigRequest{Config: encoded})
		return err
	})
}

func (d *Driver) encode(config map[string]any) ([]byte, error) {
	info := d.described()
	if info == nil {
		return nil, d.down()
	}
	checked, err := schema.Decode(d.conf.Name, info.GetTaskConfig(), config)
	if err != nil {
		return nil, err
	}
	return json.Marshal(checked)
}

// Fingerprint sends the reports of the process, and those about it.
func (d *Driver) Fingerprint(ctx context.Context) (<-chan driver.Fingerprint, error) {
	d.run()
	ch := make(chan driver.Fingerprint)
	go func() {
		defer close(ch)
		tick := time.NewTicker(driver.FingerprintPeriod)
		defer tick.Stop()
		for {
			d.mu.Lock()
			report, changed := d.report, d.changed
			d.mu.Unlock()
			if report != nil {
				select {
				case ch <- *report:
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-changed:
			case <-tick.C:
			case <-ctx.Done():
				return
			case <-d.ended:
				return
			}
		}
	}()
	return ch, nil
}

// Start runs the task.
func (d *Driver) Start(ctx context.Context, t *driver.Task) (*driver.Handle, error) {
	encoded, err := d.encode(t.Config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	d.mu.Lock()
	_, known := d.known[t.ID]
	unsettled := d.uncertain[t.ID]
	if !known && !unsettled && t.Event != nil {
		d.events[t.ID] = t.Event
	}
	d.mu.Unlock()
	switch {
	case known:
		return nil, fault.New(fault.Conflict, "task %s is already known to driver %s", t.ID, d.conf.Name)
	case unsettled:
		return nil, fault.New(fault.Unavailable, "an earlier start of task %s by driver %s has had no result yet", t.ID, d.conf.Name)
	}
	var h *driver.Handle
	began := false
	err = d.call(ctx, func(ctx context.Context, c protocol.DriverClient) error {
		r, err := c.StartTask(ctx, &protocol.StartTaskRequest{Task: protocol.FromTask(t, encoded)})
		if began = err == nil; began {
			h, err = protocol.ToHandle(d.conf.Name, r.GetHandle())
		}
		if err == nil && h.TaskID != t.ID {
			err = fault.New(fault.Internal, "the handle is of task %.64q", h.TaskID)
		}
		if err != nil {
			h = nil
		}
		return err
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		delete(d.events, t.ID)
		if began || ctx.Err() != nil || errors.Is(err, fault.Unavailable) {
			d.uncertain[t.ID] = true
			go d.settle(t.ID, ctx.Err() != nil)
		}
		return nil, fmt.Errorf("start task %s: %w", t.Name, err)
	}
	d.known[t.ID] = h
	return h, nil
}

// settle destroys a task whose start had no result, unless a new process has done it. A process that has not answered may
// still be starting the task: then it is asked again as long as a start may take.
func (d *Driver) settle(id string, unanswered bool) {
	ctx, cancel := context.WithTimeout(d.ctx, startWait)
	defer cancel()
	for wait := pause; ; wait = min(2*wait, settleMax) {
		asking, answered := context.WithTimeout(ctx, d.conf.Timeout)
		err := d.call(asking, func(ctx context.Context, c protocol.DriverClient) error {
			_, err := c.DestroyTask(ctx, &protocol.DestroyTaskRequest{TaskId: id})
			return err
		})
		answered()
		if err == nil || errors.Is(err, fault.NotFound) && !unanswered {
			d.mu.Lock()
			delete(d.uncertain, id)
			d.mu.Unlock()
			return
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		d.mu.Lock()
		unsettled := d.uncertain[id]
		if d.ctx.Err() == nil && ctx.Err() != nil {
			delete(d.uncertain, id)
		}
		d.mu.Unlock()
		if !unsettled || ctx.Err() != nil {
			return
		}
	}
}

// Recover takes up the task of a handle.
func (d *Driver) Recover(ctx context.Context, h *driver.Handle) error {
	if h.Driver != d.conf.Name {
		return fault.New(fault.NotFound, "task %s: its handle is not one of driver %s", h.TaskID, d.conf.Name)
	}
	d.mu.Lock()
	_, known := d.known[h.TaskID]
	d.mu.Unlock()
	if known {
		return fault.New(fault.Conflict, "task %s is already known to driver %s", h.TaskID, d.conf.Name)
	}
	err := d.call(ctx, func(ctx context.Context, c protocol.DriverClient) error {
		_, err := c.RecoverTask(ctx, &protocol.RecoverTaskRequest{Handle: protocol.FromHandle(h)})
		return err
	})
	if err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.known[h.TaskID] = h
	}
	return err
}

// errLost is the outcome of a task that a new process did not find.
const errLost = "the process of the driver ended and has lost the task"

// Wait blocks until the task has exited, also while the process is started again.
func (d *Driver) Wait(ctx context.Context, id string) (*driver.Exit, error) {
	var exit *driver.Exit
	err := d.persist(ctx, id, func(ctx context.Context, c protocol.DriverClient) error {
		r, err := c.WaitTask(ctx, &protocol.WaitTaskRequest{TaskId: id})
		if err == nil {
			exit = protocol.ToExit(r.GetExit())
			if r.GetExit() == nil {
				exit = &driver.Exit{Code: 1, Err: "the process of the driver has not reported how the task ended"}
			}
		}
		return err
	})
	switch {
	case errors.Is(err, errLostTask):
		return &driver.Exit{Code: 1, Err: errLost}, nil
	case err != nil:
		return nil, fmt.Errorf("wait for task %s: %w", id, err)
	}
	return exit, nil
}

// Stop signals the task, waits for it and kills it.
func (d *Driver) Stop(ctx context.Context, id, signal string, timeout time.Duration) error {
	err := d.persist(ctx, id, func(ctx context.Context, c protocol.DriverClient) error {
		_, err := c.StopTask(ctx, &protocol.StopTaskRequest{TaskId: id, Signal: signal, Timeout: int64(timeout)})
		return err
	})
	if errors.Is(err, errLostTask) {
		return nil
	}
	return err
}

// Destroy kills the task if it runs and forgets it.
func (d *Driver) Destroy(ctx context.Context, id string) error {
	err := d.persist(ctx, id, func(ctx context.Context, c protocol.DriverClient) error {
		_, err := c.DestroyTask(ctx, &protocol.DestroyTaskRequest{TaskId: id})
		return err
	})
	if err == nil || errors.Is(err, errLostTask) || errors.Is(err, fault.NotFound) {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.known, id)
		delete(d.lost, id)
		delete(d.events, id)
	}
	if errors.Is(err, errLostTask) {
		return nil
	}
	return err
}

// Inspect returns the state of the task.
func (d *Driver) Inspect(id string) (*driver.Status, error) {
	ctx, cancel := context.WithTimeout(d.ctx, d.conf.Timeout)
	defer cancel()
	var st *driver.Status
	err := d.call(ctx, func(ctx context.Context, c protocol.DriverClient) error {
		r, err := c.InspectTask(ctx, &protocol.InspectTaskRequest{TaskId: id})
		if err == nil {
			st = protocol.ToStatusOf(id, r)
		}
		return err
	})
	if d.isLost(id) {
		return &driver.Status{ID: id, State: driver.StateExited, Exit: &driver.Exit{Code: 1, Err: errLost}}, nil
	}
	return st, err
}

// Stats returns the current use of resources.
func (d *Driver) Stats(ctx context.Context, id string) (u *api.TaskResourceUsage, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.conf.Timeout)
	defer cancel()
	err = d.call(ctx, func(ctx context.Context, c protocol.DriverClient) error {
		r, err := c.TaskStats(ctx, &protocol.TaskStatsRequest{TaskId: id})
		if err == nil {
			u = protocol.ToUsage(r)
		}
		return err
	})
	return u, err
}

// Signal sends a signal to the task's main process.
func (d *Driver) Signal(ctx context.Context, id, signal string) error {
	ctx, cancel := context.WithTimeout(ctx, d.conf.Timeout)
	defer cancel()
	return d.call(ctx, func(ctx context.Context, c protocol.DriverClient) error {
		_, err := c.SignalTask(ctx, &protocol.SignalTaskRequest{TaskId: id, Signal: signal})
		return err
	})
}

func (d *Driver) isLost(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lost[id]
}
