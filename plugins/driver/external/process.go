package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/external/protocol"
	"github.com/open-nomad/open-nomad/plugins/program"
	"github.com/open-nomad/open-nomad/plugins/program/schema"
)

// process is a running process; ctx ends with it.
type process struct {
	client protocol.DriverClient
	ctx    context.Context
}

// run starts the goroutine that keeps a process, once.
func (d *Driver) run() { d.begin.Do(func() { go d.keep() }) }

// keep starts a process, again when it ends.
func (d *Driver) keep() {
	defer close(d.ended)
	p := &program.Program{Kind: protocol.Kind, Path: d.conf.Path, Args: d.conf.Args, StateDir: d.conf.StateDir, Timeout: d.conf.Timeout, Log: d.log}
	p.Keep(d.ctx, d.attend, func(why error) {
		d.publish(nil, &driver.Fingerprint{
			Health: driver.Unhealthy, Description: why.Error(), Attributes: map[string]string{"driver." + d.conf.Name: "true"},
		})
	})
}

func (d *Driver) publish(live *process, report *driver.Fingerprint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.live, d.report = live, report
	close(d.changed)
	d.changed = make(chan struct{})
}

// attend uses one process until it does not follow the protocol.
func (d *Driver) attend(ctx context.Context, conn program.Conn) error {
	p := &process{client: protocol.NewDriverClient(conn), ctx: ctx}
	if err := d.introduce(p); err != nil {
		return err
	}
	go d.follow(p)
	return program.Follow(p.ctx, d.conf.Timeout, func(ctx context.Context) (program.Receiver[*protocol.FingerprintResponse], error) {
		return p.client.Fingerprint(ctx, &protocol.FingerprintRequest{})
	}, func(r *protocol.FingerprintResponse) error {
		d.publish(p, d.reportOf(r))
		return nil
	})
}

// introduce reads what the process reports about itself, configures it and passes it the tasks.
func (d *Driver) introduce(p *process) error {
	ctx, cancel := context.WithTimeout(p.ctx, d.conf.Timeout)
	defer cancel()
	info, err := p.client.Info(ctx, &protocol.InfoRequest{})
	if err != nil {
		return fmt.Errorf("call Info: %w", program.FromStatus(ctx, err))
	}
	if err := check(info, d.conf.Name); err != nil {
		return err
	}
	config, err := schema.Decode(d.conf.Name, info.GetAgentConfig(), d.conf.Config)
	if err != nil {
		return fmt.Errorf(`block plugin %q of the agent: %w`, filepath.Base(d.conf.Path), err)
	}
	encoded, err := json.Marshal(config)
	if err != nil {
		return err
	}
	if _, err := p.client.Configure(ctx, &protocol.ConfigureRequest{Config: encoded, StateDir: d.conf.StateDir}); err != nil {
		return fmt.Errorf("call Configure: %w", program.FromStatus(ctx, err))
	}
	if err := d.recoverAll(p); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.info = info
	return nil
}

// check refuses what a process must not report about itself.
func check(info *protocol.InfoResponse, name string) error {
	if info.GetName() != name {
		return fault.New(fault.Invalid, "it is the driver %.64q: name the executable %s%.64s", info.GetName(), protocol.Prefix, info.GetName())
	}
	switch i := driver.Isolation(info.GetCapabilities().GetIsolation()); i {
	case driver.IsolationNone, driver.IsolationChroot, driver.IsolationImage:
	default:
		return fault.New(fault.Invalid, "it reports the unknown isolation %.64q", i)
	}
	return errors.Join(schema.Check(info.GetAgentConfig()), schema.Check(info.GetTaskConfig()))
}

// recoverAll passes a new process the tasks of the one before, and has it destroy those whose start had no result.
func (d *Driver) recoverAll(p *process) error {
	d.mu.Lock()
	handles, uncertain := map[string]*protocol.Handle{}, []string{}
	for id, h := range d.known {
		if !d.lost[id] {
			handles[id] = protocol.FromHandle(h)
		}
	}
	for id := range d.uncertain {
		uncertain = append(uncertain, id)
	}
	d.mu.Unlock()
	call := func(f func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(p.ctx, d.conf.Timeout)
		defer cancel()
		return program.FromStatus(ctx, f(ctx))
	}
	for id, h := range handles {
		err := call(func(ctx context.Context) error {
			_, err := p.client.RecoverTask(ctx, &protocol.RecoverTaskRequest{Handle: h})
			return err
		})
		if err == nil {
			continue
		}
		if !errors.Is(err, fault.NotFound) {
			return fmt.Errorf("recover task %s: %w", id, err)
		}
		d.log.Warn("process of the driver has lost a task", "task", id, "error", err)
		d.mu.Lock()
		d.lost[id] = true
		d.mu.Unlock()
	}
	for _, id := range uncertain {
		err := call(func(ctx context.Context) error {
			_, err := p.client.DestroyTask(ctx, &protocol.DestroyTaskRequest{TaskId: id})
			return err
		})
		if err != nil && !errors.Is(err, fault.NotFound) {
			return fmt.Errorf("end task %s, whose start had no result: %w", id, err)
		}
		d.mu.Lock()
		delete(d.uncertain, id)
		d.mu.Unlock()
	}
	return nil
}

// reportOf reads a report; attributes that belong to others are left out.
func (d *Driver) reportOf(r *protocol.FingerprintResponse) *driver.Fingerprint {
	name := "driver." + d.conf.Name
	f := &driver.Fingerprint{Health: driver.Health(r.GetHealth()), Description: r.GetDescription(), Attributes: map[string]string{name: "true"}}
	switch f.Health {
	case driver.Healthy, driver.Unhealthy:
	case driver.Undetected:
		f.Attributes[name] = ""
	default:
		f.Health, f.Description = driver.Unhealthy, fmt.Sprintf("its process reports the unknown health %.64q", r.GetHealth())
	}
	const (
		attributesMax = 128
		valueMax      = 4096
	)
	for key, value := range r.GetAttributes() {
		if strings.HasPrefix(key, name+".") && len(f.Attributes) < attributesMax && len(key)+len(value) < valueMax {
			f.Attributes[key] = value
		}
	}
	f.Description = f.Description[:min(len(f.Description), valueMax)]
	return f
}

// follow passes events of tasks on.
func (d *Driver) follow(p *process) {
	stream, err := p.client.Events(p.ctx, &protocol.EventsRequest{})
	for err == nil {
		var e *protocol.EventsResponse
		if e, err = stream.Recv(); err != nil {
			break
		}
		d.mu.Lock()
		record := d.events[e.GetTaskId()]
		d.mu.Unlock()
		const textMax = 1024
		if text := e.GetText(); record != nil {
			record(text[:min(len(text), textMax)])
			program.Pause(p.ctx)
		}
	}
	if p.ctx.Err() == nil {
		d.log.Debug("process of the driver sends no events", "error", err)
	}
}
