package tasks

import (
	"context"
	"errors"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/dirs"
)

// apiSocket serves the API on the socket of the task.
type apiSocket struct{ *task }

func (apiSocket) name() string { return "api socket" }

func (s apiSocket) up(context.Context, *attempt) error { return s.openSocket() }

func (s apiSocket) resume(context.Context, *attempt) {
	if err := s.openSocket(); err != nil {
		s.g.conf.Log.Warn("the task has no API socket", "task", s.task.name, "error", err)
	}
}

func (s apiSocket) down(_ *attempt, left bool) { s.closeSocket(left) }

// openSocket makes the API socket of the task and serves it until closeSocket. A task that prevents that has none. The error is
// that of a disk which accepts no writes now.
func (t *task) openSocket() error {
	if t.g.conf.ServeAPI == nil {
		return nil
	}
	t.closeSocket(true)
	l, err := t.g.conf.Dirs.Listen(t.name)
	if dirs.Unwritable(err) {
		return err
	}
	if err != nil {
		t.g.conf.Log.Warn("the task has no API socket", "task", t.name, "error", err)
		return nil
	}
	t.socket = l
	t.g.conf.ServeAPI(l, t.name)
	return nil
}

// closeSocket ends serving the socket, and removes it unless the task keeps it for the next agent process.
func (t *task) closeSocket(keep bool) {
	if t.socket == nil {
		return
	}
	_ = t.socket.Close()
	t.socket = nil
	if keep {
		return
	}
	if err := t.g.conf.Dirs.RemoveSocket(t.name); err != nil && !errors.Is(err, fault.NotFound) {
		t.g.conf.Log.Warn("remove API socket", "task", t.name, "error", err)
	}
}
