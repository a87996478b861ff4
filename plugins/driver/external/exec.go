package external

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/external/protocol"
)

// chunk is how much input goes into one message.
const chunk = 32 << 10

// Exec runs a command inside a running task. It implements [driver.Execer].
func (d *Driver) Exec(ctx context.Context, id string, c *driver.Command) (code int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	var failed error // of a writer
	err = d.call(ctx, func(ctx context.Context, client protocol.DriverClient) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := client.ExecTask(ctx)
		if err != nil {
			return err
		}
		s := &sender{stream: stream}
		if err := s.send(&protocol.ExecTaskRequest{Message: &protocol.ExecTaskRequest_Start_{Start: &protocol.ExecTaskRequest_Start{
			TaskId: id, Args: c.Args, Tty: c.TTY, Stdin: c.Stdin != nil,
		}}}); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if c.Stdin != nil {
			go s.input(c.Stdin)
		}
		if c.Resize != nil {
			go s.sizes(ctx, c.Resize)
		}
		code, failed, err = receive(stream, c)
		return errors.Join(err, failed)
	})
	if failed != nil && ctx.Err() == nil {
		return 0, failed
	}
	return code, err
}

func receive(stream protocol.Driver_ExecTaskClient, c *driver.Command) (code int, failed, err error) {
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return 0, nil, fault.New(fault.Internal, "the process of the driver has sent no exit code")
		}
		if err != nil {
			return 0, nil, err
		}
		w, b := c.Stdout, []byte(nil)
		switch m := r.GetMessage().(type) {
		case *protocol.ExecTaskResponse_Stdout:
			b = m.Stdout
		case *protocol.ExecTaskResponse_Stderr:
			w, b = c.Stderr, m.Stderr
		case *protocol.ExecTaskResponse_Exit:
			return int(m.Exit), nil, nil
		}
		if w != nil && len(b) > 0 {
			if _, err := w.Write(b); err != nil {
				return 0, err, nil
			}
		}
	}
}

// sender sends messages of several goroutines, one at a time.
type sender struct {
	mu     sync.Mutex
	stream protocol.Driver_ExecTaskClient
}

func (s *sender) send(r *protocol.ExecTaskRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream.Send(r)
}

func (s *sender) input(r io.Reader) {
	b := make([]byte, chunk)
	for {
		n, err := r.Read(b)
		if n > 0 && s.send(&protocol.ExecTaskRequest{Message: &protocol.ExecTaskRequest_Stdin{Stdin: b[:n]}}) != nil {
			return
		}
		if err != nil {
			_ = s.send(&protocol.ExecTaskRequest{Message: &protocol.ExecTaskRequest_StdinClosed{StdinClosed: true}})
			return
		}
	}
}

func (s *sender) sizes(ctx context.Context, sizes <-chan driver.TerminalSize) {
	for {
		select {
		case size, open := <-sizes:
			if !open || s.send(&protocol.ExecTaskRequest{Message: &protocol.ExecTaskRequest_Size_{Size: &protocol.ExecTaskRequest_Size{
				Width: int64(size.Width), Height: int64(size.Height),
			}}}) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
