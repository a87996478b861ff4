package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/external/protocol"
)

const (
	// againMin and againMax bound the pause before a process is started again; after calm it is the first one.
	againMin, againMax, calm = time.Second, time.Minute, 5 * time.Minute
	// silence is how long a process may send no report.
	silence = 3 * driver.FingerprintPeriod
	// endWait bounds cleaning up after a killed process, whose children may hold its outputs.
	endWait = 5 * time.Second
)

// process is a running process; ctx ends with it.
type process struct {
	client protocol.DriverClient
	ctx    context.Context
}

// run starts the goroutine that keeps a process, once.
func (d *Driver) run() { d.begin.Do(func() { go d.keep() }) }

// keep starts a process, again when it ends. The kernel kills the process when this thread ends, which is with the agent.
func (d *Driver) keep() {
	defer close(d.ended)
	runtime.LockOSThread()
	d.removeSockets()
	again := againMin
	for {
		begun := time.Now()
		err := d.attend()
		if d.ctx.Err() != nil {
			return
		}
		if time.Since(begun) > calm {
			again = againMin
		}
		d.log.Warn("process of the driver ended", "error", reason(err), "again_in", again)
		name := "driver." + d.conf.Name
		d.publish(nil, &driver.Fingerprint{
			Health: driver.Unhealthy, Description: fmt.Sprintf("%s: %.500s; it is started again", d.conf.Path, reason(err)),
			Attributes: map[string]string{name: "true"},
		})
		select {
		case <-time.After(again):
		case <-d.ctx.Done():
			return
		}
		again = min(2*again, againMax)
	}
}

// reason is the first line of an error: go-plugin adds explanations.
func reason(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return strings.Join(strings.Fields(text), " ")
}

func (d *Driver) publish(live *process, report *driver.Fingerprint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.live, d.report = live, report
	close(d.changed)
	d.changed = make(chan struct{})
}

// attend runs one process until it ends, or is killed because it does not follow the protocol.
func (d *Driver) attend() error {
	if err := os.MkdirAll(d.conf.StateDir, 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, d.conf.Path, d.conf.Args...)
	cmd.Dir = d.conf.StateDir
	sockets, err := d.sockets()
	if err != nil {
		return err
	}
	defer d.removeSockets()
	cmd.Env = []string{plugin.EnvUnixSocketDir + "=" + sockets, "PATH=" + os.Getenv("PATH")} // the agent's own has secrets
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: protocol.Handshake, VersionedPlugins: protocol.Plugins(nil), Cmd: cmd, SkipHostEnv: true, StartTimeout: d.conf.Timeout,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, Logger: limited(d.log),
		GRPCDialOptions: []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(protocol.MaxMessage))},
	})
	defer func() {
		cancel() // waiting calls continue with the next process, before this one is cleaned up
		end(c, cmd)
	}()
	conn, err := c.Client()
	if err != nil {
		return fmt.Errorf("it does not speak the protocol of task drivers: %w", err)
	}
	dispensed, err := conn.Dispense(protocol.PluginName)
	if err != nil {
		return err
	}
	client, ok := dispensed.(protocol.DriverClient)
	if !ok {
		return fault.New(fault.Internal, "unexpected plugin %T", dispensed)
	}
	p := &process{client: client, ctx: ctx}
	if err := d.introduce(p); err != nil {
		return err
	}
	go d.follow(p)
	return d.reports(p)
}

func kill(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = cmd.Process.Kill()
	}
}

func end(c *plugin.Client, cmd *exec.Cmd) {
	kill(cmd)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Kill()
	}()
	select {
	case <-done:
	case <-time.After(endWait):
	}
}

// introduce reads what the process reports about itself, configures it and passes it the tasks.
func (d *Driver) introduce(p *process) error {
	ctx, cancel := context.WithTimeout(p.ctx, d.conf.Timeout)
	defer cancel()
	info, err := p.client.Info(ctx, &protocol.InfoRequest{})
	if err != nil {
		return fmt.Errorf("call Info: %w", protocol.FromStatus(ctx, err))
	}
	if err := check(info, d.conf.Name); err != nil {
		return err
	}
	config, err := protocol.Decode(d.conf.Name, info.GetAgentConfig(), d.conf.Config)
	if err != nil {
		return fmt.Errorf(`block plugin %q of the agent: %w`, filepath.Base(d.conf.Path), err)
	}
	encoded, err := json.Marshal(config)
	if err != nil {
		return err
	}
	if _, err := p.client.Configure(ctx, &protocol.ConfigureRequest{Config: encoded, StateDir: d.conf.StateDir}); err != nil {
		return fmt.Errorf("call Configure: %w", protocol.FromStatus(ctx, err))
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
	return errors.Join(protocol.CheckSchema(info.GetAgentConfig()), protocol.CheckSchema(info.GetTaskConfig()))
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
		return protocol.FromStatus(ctx, f(ctx))
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

// reports publishes what the process reports about its health, until it ends or is silent.
func (d *Driver) reports(p *process) error {
	ctx, cancel := context.WithCancelCause(p.ctx)
	defer cancel(nil)
	stream, err := p.client.Fingerprint(ctx, &protocol.FingerprintRequest{})
	if err != nil {
		return fmt.Errorf("Fingerprint: %w", err)
	}
	errSilent := fault.New(fault.Timeout, "it has sent no report of its health for %v", silence)
	first := time.AfterFunc(d.conf.Timeout, func() {
		cancel(fault.New(fault.Timeout, "it has sent no report of its health within %v", d.conf.Timeout))
	})
	defer first.Stop()
	for {
		r, err := stream.Recv()
		first.Stop()
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return fmt.Errorf("Fingerprint: %w", err)
		}
		d.publish(p, d.reportOf(r))
		p.pause()
		first = time.AfterFunc(silence, func() { cancel(errSilent) })
	}
}

// flowPause bounds how many reports and events a process can send in a time: it waits for the next one to be read.
const flowPause = 50 * time.Millisecond

func (p *process) pause() {
	select {
	case <-time.After(flowPause):
	case <-p.ctx.Done():
	}
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
			p.pause()
		}
	}
	if p.ctx.Err() == nil {
		d.log.Debug("process of the driver sends no events", "error", err)
	}
}
