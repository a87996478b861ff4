package agent

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

// leaveWait bounds the farewell of a server.
const leaveWait = 15 * time.Second

// untilSignal ends the context at an interrupt or a termination. Where the configuration says so the
// server leaves the others first, unless a second signal comes.
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
			if a.leaves(s) {
				a.leave(ctx, signals)
			}
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(); <-done }
}

// leaves reports whether the signal means that the server goes for good.
func (a *agent) leaves(s os.Signal) bool {
	if a.server == nil {
		return false
	}
	if s == os.Interrupt {
		return a.cfg.LeaveOnInterrupt
	}
	return a.cfg.LeaveOnTerminate
}

func (a *agent) leave(ctx context.Context, again <-chan os.Signal) {
	ctx, cancel := context.WithTimeout(ctx, leaveWait)
	defer cancel()
	left := make(chan error, 1)
	go func() { left <- a.server.Leave(ctx) }()
	select {
	case err := <-left:
		if err != nil {
			a.log.Error("the server did not leave gracefully", "error", err)
		}
	case s := <-again:
		a.log.Warn("ending at once", "error", fault.New(fault.Unavailable, "a second signal came: %s", s))
	}
}
