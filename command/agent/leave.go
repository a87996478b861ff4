package agent

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

// leaveWait limits the leave of a server, drainDeadline is the default for the drain of a node.
const (
	leaveWait     = 15 * time.Second
	drainDeadline = time.Hour
)

// untilSignal ends the context at an interrupt or a termination. If the configuration requires it, the node is drained
// and the server leaves the cluster first, unless a second signal arrives.
func (a *agent) untilSignal(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals, done := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer close(done)
		defer cancel()
		select {
		case s := <-signals:
			a.log.Info("ending", "signal", s.String(), "leave", a.leaves(s))
			a.abrupt.Store(!a.leaves(s) || !a.leave(ctx, signals))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(); <-done }
}

// leaves reports whether the signal means that the server goes for good, or the node is to be drained.
func (a *agent) leaves(s os.Signal) bool {
	if s == os.Interrupt {
		return a.cfg.LeaveOnInterrupt
	}
	return a.cfg.LeaveOnTerminate
}

// leave reports whether the agent left gracefully.
func (a *agent) leave(ctx context.Context, again <-chan os.Signal) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	left := make(chan error, 1)
	go func() { left <- a.leaveCluster(ctx) }()
	select {
	case err := <-left:
		if err != nil {
			a.log.Error("the agent did not leave gracefully", "error", err)
		}
		return err == nil
	case s := <-again:
		a.log.Warn("ending at once", "error", fault.New(fault.Unavailable, "a second signal came: %s", s))
		return false
	}
}

// leaveCluster drains the node, while the server can still see to that, and has the server leave.
func (a *agent) leaveCluster(ctx context.Context) error {
	var errs []error
	if a.node != nil {
		errs = append(errs, a.node.Drain(ctx))
	}
	if a.server != nil && ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(ctx, leaveWait)
		defer cancel()
		errs = append(errs, a.server.Leave(ctx))
	}
	return errors.Join(errs...)
}
