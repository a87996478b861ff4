package cluster

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/volumes"
)

// task is a workload and the process that supervises it, which keeps the lease even without an agent. It is
// guarded by World.mu.
type task struct {
	alloc string
	from  time.Duration // by the boot clock: when the last answered heartbeat was sent
	term  api.LeaseTerm // zero without a lease
	paths []string      // to be unmounted at the end of the lease
	dead  chan struct{}
	ended bool
	// writing is set while data of an ended task is written back.
	writing bool
}

func (t *task) end() {
	if !t.ended {
		t.ended = true
		close(t.dead)
	}
}

// launch starts a task on what is mounted; the lock is held.
func (n *node) launch(alloc string, sources []string, l *volumes.Lease) *task {
	t := &task{alloc: alloc, from: n.agent.from, term: l.Term, paths: l.Unmount, dead: make(chan struct{})}
	n.tasks[alloc] = t
	if t.term.Term > 0 && t.from+n.lasts(t) <= n.clock() && n.w.bug != BugNoLease {
		n.w.tell("%s does not start %s: its lease is over", n.id, alloc)
		t.end()
		return t
	}
	n.w.tell("%s starts %s", n.id, alloc)
	for _, path := range sources {
		if on, _ := n.kernel.IsPoint(path); !on {
			n.w.fail("%s starts on %s without the mount of %s", alloc, n.id, n.label(path))
		}
	}
	n.w.checkOutside()
	if t.term.Term > 0 && n.w.bug != BugNoLease {
		go n.supervise(n.os, t)
	}
	return t
}

// supervise ends a task whose lease is over, and takes its mounts away after that.
func (n *node) supervise(ctx context.Context, t *task) {
	w := n.w
	for {
		w.mu.Lock()
		left := t.from + n.lasts(t) - n.clock()
		over := left <= 0 && !t.ended && ctx.Err() == nil
		if over {
			w.tell("%s: the lease of %s is over", n.id, t.alloc)
			w.tally.Events++
			w.tally.Leases++
			t.writing = true
			n.busy(t, true)
			t.end()
		}
		w.mu.Unlock()
		if over {
			break
		}
		timer := time.NewTimer(n.after(max(left, time.Millisecond)))
		select {
		case <-timer.C:
		case <-t.dead:
			timer.Stop()
			return
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
	took := w.some(w.dice.roll("write back "+t.alloc), n.after(t.term.Term-t.term.Stop()))
	if w.bug == BugWriteBack {
		took = n.after(t.term.Term - t.term.Stop())
	}
	if !w.sleep(ctx, took) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.writing = false
	n.busy(t, false)
	for _, path := range t.paths {
		if on, _ := n.kernel.IsPoint(path); on {
			w.tell("%s: the lease unmounts %s", n.id, n.label(path))
			_ = n.kernel.Unmount(path)
		}
	}
}

// busy says whether data is being written back: nobody can unmount then; the lock is held.
func (n *node) busy(t *task, yes bool) {
	for _, path := range t.paths {
		n.kernel.SetBusy(path, yes)
	}
}

// lasts is for how long a task goes on after the last heartbeat that was answered: what comes after its end must end
// within the term too.
func (n *node) lasts(t *task) time.Duration {
	if n.w.bug == BugWriteBack {
		return t.term.Term
	}
	return t.term.Stop()
}

// runs reports whether the task writes now.
func (n *node) runs(alloc string) bool {
	t := n.tasks[alloc]
	return t != nil && (!t.ended || t.writing)
}
