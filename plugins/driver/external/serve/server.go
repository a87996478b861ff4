package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/external/protocol"
	"github.com/open-nomad/open-nomad/plugins/program"
	"github.com/open-nomad/open-nomad/plugins/program/schema"
)

// eventsMax is how many events wait for the agent; further ones are dropped.
const eventsMax = 256

// server is the service of a driver.
type server struct {
	protocol.UnimplementedDriverServer
	plugin Plugin
	log    hclog.Logger
	events chan *protocol.EventsResponse

	mu     sync.Mutex
	driver driver.Driver
}

func newServer(p Plugin, log hclog.Logger) *server {
	return &server{plugin: p, log: log, events: make(chan *protocol.EventsResponse, eventsMax)}
}

func (s *server) Info(context.Context, *protocol.InfoRequest) (*protocol.InfoResponse, error) {
	c := s.plugin.Capabilities
	return &protocol.InfoResponse{
		Name: s.plugin.Name, Version: s.plugin.Version, AgentConfig: schema.Of(s.plugin.AgentConfig), TaskConfig: schema.Of(s.plugin.TaskConfig),
		Capabilities: &protocol.Capabilities{Mounts: c.Mounts, Signals: c.Signals, Exec: c.Exec, Isolation: string(c.Isolation)},
	}, nil
}

func (s *server) Configure(_ context.Context, r *protocol.ConfigureRequest) (*protocol.ConfigureResponse, error) {
	config, err := schema.Config(r.GetConfig())
	if err != nil {
		return nil, program.ToStatus(fault.Wrap(fault.Invalid, err))
	}
	d, err := s.plugin.New(config, r.GetStateDir(), s.log)
	if err != nil {
		return nil, program.ToStatus(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.driver = d
	return &protocol.ConfigureResponse{}, nil
}

// with calls the driver and makes a status of its error.
func (s *server) with(f func(driver.Driver) error) error {
	s.mu.Lock()
	d := s.driver
	s.mu.Unlock()
	if d == nil {
		return program.ToStatus(fault.New(fault.Conflict, "the driver is not configured yet"))
	}
	return program.ToStatus(f(d))
}

func (s *server) Fingerprint(_ *protocol.FingerprintRequest, stream protocol.Driver_FingerprintServer) error {
	return s.with(func(d driver.Driver) error {
		ch, err := d.Fingerprint(stream.Context())
		if err != nil {
			return err
		}
		for f := range ch {
			r := &protocol.FingerprintResponse{Health: string(f.Health), Description: f.Description, Attributes: f.Attributes}
			if f.Err != nil {
				r.Health, r.Description = string(driver.Unhealthy), f.Err.Error()
			}
			if err := stream.Send(r); err != nil {
				return err
			}
		}
		return stream.Context().Err()
	})
}

func (s *server) Events(_ *protocol.EventsRequest, stream protocol.Driver_EventsServer) error {
	for {
		select {
		case e := <-s.events:
			if err := stream.Send(e); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func (s *server) ValidateConfig(_ context.Context, r *protocol.ValidateConfigRequest) (*protocol.ValidateConfigResponse, error) {
	return &protocol.ValidateConfigResponse{}, s.with(func(d driver.Driver) error {
		config, err := schema.Config(r.GetConfig())
		if err != nil {
			return fault.Wrap(fault.Invalid, err)
		}
		return d.ValidateConfig(config)
	})
}

func (s *server) StartTask(ctx context.Context, r *protocol.StartTaskRequest) (*protocol.StartTaskResponse, error) {
	out := &protocol.StartTaskResponse{}
	return out, s.with(func(d driver.Driver) error {
		t, err := protocol.ToTask(r.GetTask())
		if err != nil {
			return fault.Wrap(fault.Invalid, err)
		}
		t.Event = func(text string) {
			select {
			case s.events <- &protocol.EventsResponse{TaskId: t.ID, Text: text}:
			default:
			}
		}
		h, err := d.Start(ctx, t)
		if err == nil {
			out.Handle = protocol.FromHandle(h)
		}
		return err
	})
}

func (s *server) RecoverTask(ctx context.Context, r *protocol.RecoverTaskRequest) (*protocol.RecoverTaskResponse, error) {
	return &protocol.RecoverTaskResponse{}, s.with(func(d driver.Driver) error {
		h, err := protocol.ToHandle(d.Name(), r.GetHandle())
		if err != nil {
			return fault.Wrap(fault.NotFound, err)
		}
		return d.Recover(ctx, h)
	})
}

func (s *server) WaitTask(ctx context.Context, r *protocol.WaitTaskRequest) (*protocol.WaitTaskResponse, error) {
	out := &protocol.WaitTaskResponse{}
	return out, s.with(func(d driver.Driver) error {
		x, err := d.Wait(ctx, r.GetTaskId())
		out.Exit = protocol.FromExit(x)
		return err
	})
}

func (s *server) StopTask(ctx context.Context, r *protocol.StopTaskRequest) (*protocol.StopTaskResponse, error) {
	return &protocol.StopTaskResponse{}, s.with(func(d driver.Driver) error {
		return d.Stop(ctx, r.GetTaskId(), r.GetSignal(), time.Duration(r.GetTimeout()))
	})
}

func (s *server) DestroyTask(ctx context.Context, r *protocol.DestroyTaskRequest) (*protocol.DestroyTaskResponse, error) {
	return &protocol.DestroyTaskResponse{}, s.with(func(d driver.Driver) error { return d.Destroy(ctx, r.GetTaskId()) })
}

func (s *server) InspectTask(_ context.Context, r *protocol.InspectTaskRequest) (out *protocol.InspectTaskResponse, err error) {
	err = s.with(func(d driver.Driver) error {
		st, err := d.Inspect(r.GetTaskId())
		if err == nil {
			out = protocol.FromStatusOf(st)
		}
		return err
	})
	return out, err
}

func (s *server) TaskStats(ctx context.Context, r *protocol.TaskStatsRequest) (out *protocol.TaskStatsResponse, err error) {
	err = s.with(func(d driver.Driver) error {
		u, err := d.Stats(ctx, r.GetTaskId())
		if err == nil {
			out = protocol.FromUsage(u)
		}
		return err
	})
	return out, err
}

func (s *server) SignalTask(ctx context.Context, r *protocol.SignalTaskRequest) (*protocol.SignalTaskResponse, error) {
	return &protocol.SignalTaskResponse{}, s.with(func(d driver.Driver) error { return d.Signal(ctx, r.GetTaskId(), r.GetSignal()) })
}

func (s *server) ExecTask(stream protocol.Driver_ExecTaskServer) error {
	return s.with(func(d driver.Driver) error {
		e, ok := d.(driver.Execer)
		if !ok {
			return fault.New(fault.Unimplemented, "driver %s does not run commands in its tasks", d.Name())
		}
		first, err := stream.Recv()
		if err != nil {
			return err
		}
		start := first.GetStart()
		if start == nil {
			return fault.New(fault.Invalid, "the first message has no start")
		}
		out := &output{stream: stream}
		sizes := make(chan driver.TerminalSize, 1)
		c := &driver.Command{Args: start.GetArgs(), TTY: start.GetTty(), Stdout: out.writer(false), Stderr: out.writer(true)}
		if c.TTY {
			c.Resize = sizes
		}
		in, typed := io.Pipe()
		defer in.Close()
		if start.GetStdin() {
			c.Stdin = in
		}
		ctx, cancel := context.WithCancel(stream.Context())
		defer cancel()
		go read(ctx, stream, typed, sizes)
		code, err := e.Exec(ctx, start.GetTaskId(), c)
		if err != nil {
			return err
		}
		return out.send(&protocol.ExecTaskResponse{Message: &protocol.ExecTaskResponse_Exit{Exit: int64(code)}})
	})
}

// read passes messages to a command until there are no more.
func read(ctx context.Context, stream protocol.Driver_ExecTaskServer, in *io.PipeWriter, sizes chan<- driver.TerminalSize) {
	for {
		r, err := stream.Recv()
		if err != nil {
			_ = in.CloseWithError(fmt.Errorf("input of the command: %w", errors.Join(err, ctx.Err())))
			return
		}
		switch m := r.GetMessage().(type) {
		case *protocol.ExecTaskRequest_Stdin:
			_, _ = in.Write(m.Stdin) // an error means that the command reads no more
		case *protocol.ExecTaskRequest_StdinClosed:
			_ = in.Close()
		case *protocol.ExecTaskRequest_Size_:
			select {
			case sizes <- driver.TerminalSize{Width: int(m.Size.GetWidth()), Height: int(m.Size.GetHeight())}:
			case <-ctx.Done():
			}
		}
	}
}

// output sends what a command writes.
type output struct {
	mu     sync.Mutex
	stream protocol.Driver_ExecTaskServer
}

func (o *output) send(r *protocol.ExecTaskResponse) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stream.Send(r)
}

func (o *output) writer(isErr bool) io.Writer { return &stream{o, isErr} }

type stream struct {
	*output
	isErr bool
}

func (s *stream) Write(b []byte) (int, error) {
	const chunk = 32 << 10
	for n := 0; n < len(b); {
		part := b[n:min(n+chunk, len(b))]
		r := &protocol.ExecTaskResponse{Message: &protocol.ExecTaskResponse_Stdout{Stdout: part}}
		if s.isErr {
			r.Message = &protocol.ExecTaskResponse_Stderr{Stderr: part}
		}
		if err := s.send(r); err != nil {
			return n, err
		}
		n += len(part)
	}
	return len(b), nil
}
