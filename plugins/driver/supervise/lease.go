package supervise

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// A supervising process with a lease stays after the exit of its task: it takes the volumes away when the lease ends, in
// case that no agent is there. An agent releases it when they are unmounted, or when another process keeps them.

// Renew moves on the time, a reading of CLOCK_BOOTTIME in nanoseconds, from which the task's lease counts. An error of
// class fault.NotFound means that no process keeps it any more.
func (p *Process) Renew(from int64) error {
	select {
	case <-p.done:
		if !p.Keeping() {
			return fault.New(fault.NotFound, "no process keeps the lease of task %s", p.Ident().TaskID)
		}
	default:
	}
	return p.order(frame.Wrap(frame.KindLease, frame.Time(from)))
}

// Keeping reports whether the supervising process keeps the lease though the task has exited.
func (p *Process) Keeping() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keeping
}

func (p *Process) setKeeping(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keeping = yes
}

// Release ends the keeping of the lease of a task that has exited.
func (p *Process) Release() {
	p.mu.Lock()
	p.released, p.keeping = true, false
	p.mu.Unlock()
	_ = p.hand(frame.Wrap(frame.KindRelease, nil))
}

func (p *Process) isReleased() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.released
}

// followLease stays in touch with a supervising process that keeps a lease, until it has ended.
func (p *Process) followLease() {
	for {
		if p.conn != nil {
			for err := error(nil); err == nil; {
				_, _, err = readFrame(p.conn)
			}
		}
		if !p.reconnect() {
			break
		}
		if p.isReleased() {
			_ = p.hand(frame.Wrap(frame.KindRelease, nil))
		}
	}
	if p.conn != nil {
		p.conn.Close()
	}
	if !p.isDetached() {
		p.setKeeping(false)
		p.reap()
	}
}

// Gone reports whether the supervising process has ended.
func (p *Process) Gone() bool { return !p.alive() }

// Clean removes the socket of a supervising process that has ended while it kept the lease of a task that is forgotten: one
// that is killed cannot. It has the lock meanwhile, so that the socket is not that of one which has just begun.
func (p *Process) Clean() error {
	state := p.Ident().State
	f, err := os.OpenFile(state+".lock", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil // the task is not forgotten
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return nil // one begins
	}
	return remove(state, ".sock", ".lock")
}

// alive reports whether the supervising process has not ended.
func (p *Process) alive() bool { return alive(p.Ident().PID, p.Ident().Ticks) }

// attachEnded takes up a process that was found with its exit on record. Its supervising process may keep the lease.
func attachEnded(ctx context.Context, id Ident, x Exit) *Process {
	p := ended(id, x)
	if !x.keeps || id.anotherBoot() {
		return p
	}
	conn, _, err := dial(ctx, id)
	if err != nil && !alive(id.PID, id.Ticks) {
		return p
	}
	p.conn, p.keeping = conn, true
	go p.followLease()
	return p
}

// settleWait bounds the wait for the report of a process whose task has exited.
const settleWait = time.Second

// Kept takes up the supervising process of an attempt of which nothing is left but that it keeps a lease. An error of class
// fault.NotFound means that there is none.
func Kept(ctx context.Context, state string) (*Process, error) {
	id, err := Find(ctx, state)
	if err != nil {
		return nil, err
	}
	if id.TaskPID != 0 || id.LeaseOf == "" {
		return nil, fault.New(fault.NotFound, "a lease kept for task %s, which runs", id.TaskID)
	}
	p, err := Attach(ctx, id)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.done:
	case <-time.After(settleWait):
	case <-ctx.Done():
	}
	if !p.Keeping() {
		p.Detach()
		return nil, fault.New(fault.NotFound, "a lease kept for task %s", id.TaskID)
	}
	return p, nil
}
