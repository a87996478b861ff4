package external

import (
	"context"
	"errors"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver/external/protocol"
	"github.com/open-nomad/open-nomad/plugins/program"
)

var (
	// errEnded means that the process ended during the call: its result is not known.
	errEnded = errors.New("the process of the driver ended during the call")
	// errLostTask means that a new process did not find the task.
	errLostTask = errors.New(errLost)
)

// running waits for a process that gets calls, or for the report that there is none.
func (d *Driver) running(ctx context.Context) (*process, error) {
	d.run()
	for {
		d.mu.Lock()
		p, report, changed := d.live, d.report, d.changed
		d.mu.Unlock()
		switch {
		case p != nil:
			return p, nil
		case report != nil:
			return nil, d.down()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-d.ended:
			return nil, fault.New(fault.Unavailable, "driver %s has been closed", d.conf.Name)
		}
	}
}

// down is the error of a driver without a process.
func (d *Driver) down() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.report == nil {
		return fault.New(fault.Unavailable, "driver %s: its process has not started yet", d.conf.Name)
	}
	return fault.New(fault.Unavailable, "driver %s: %s", d.conf.Name, d.report.Description)
}

// call calls the process once.
func (d *Driver) call(ctx context.Context, f func(context.Context, protocol.DriverClient) error) error {
	p, err := d.running(ctx)
	if err != nil {
		return err
	}
	return p.do(ctx, f)
}

// do calls the process until it ends.
func (p *process) do(ctx context.Context, f func(context.Context, protocol.DriverClient) error) error {
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	err := f(own, p.client)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case p.ctx.Err() != nil:
		return fault.Wrap(fault.Unavailable, errEnded)
	}
	return program.FromStatus(ctx, err)
}

// pause is the time between two attempts of a call that must succeed.
const pause = 200 * time.Millisecond

// persist calls the process, and the next one when it ends, about a task that is known. Such calls may be repeated.
func (d *Driver) persist(ctx context.Context, id string, f func(context.Context, protocol.DriverClient) error) error {
	for {
		if d.isLost(id) {
			return errLostTask
		}
		p, err := d.running(ctx)
		if err == nil {
			if err = p.do(ctx, f); err == nil || !errors.Is(err, errEnded) && !p.broken(err) {
				return err
			}
		}
		if ctx.Err() != nil || d.ctx.Err() != nil {
			return err
		}
		d.mu.Lock()
		_, known := d.known[id]
		d.mu.Unlock()
		if !known {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// broken reports whether an error is one of the connection: the process ends, or has ended.
func (p *process) broken(err error) bool {
	if !errors.Is(err, fault.Unavailable) {
		return false
	}
	select {
	case <-p.ctx.Done():
		return true
	case <-time.After(pause): // it may be noticed a little later
		return p.ctx.Err() != nil
	}
}
