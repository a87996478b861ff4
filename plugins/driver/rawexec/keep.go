package rawexec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// Supervising processes with a lease stay when their tasks have ended, in case that the agent dies before the volumes are
// unmounted. One of an allocation is enough.

func (d *Driver) setLease(s *frame.Spec, t *driver.Task) {
	l := t.Lease
	if l == nil {
		return
	}
	s.Lease, s.LeaseFrom, s.Unmount, s.Beside = int64(l.Term.Stop()), l.From, l.Unmount, l.Beside
	s.LeaseCut, s.LeaseEnd, s.Shared = int64(l.Term.Cut()), int64(l.Term.Term), l.Shared
	s.LeaseOf = cmp.Or(t.AllocID, t.ID)
	s.LeaseFile, s.Container = d.leaseFile(s.LeaseOf), l.Container
}

// leaseFile is what all supervising processes of an allocation lock which have its lease.
func (d *Driver) leaseFile(allocID string) string {
	h := fnv.New64a()
	h.Write([]byte(allocID))
	return filepath.Join(shardOf(d.leaseDir(), h.Sum64()), fmt.Sprintf("%016x", h.Sum64())+supervise.LeaseEnding)
}

func (d *Driver) leaseDir() string { return cmp.Or(d.config.LeaseDir, d.config.StateDir) }

// Keep implements [driver.Keeper].
func (d *Driver) Keep(from int64, needed func(allocID string) bool) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, p := range d.keeping() {
		needs := needed(p.Ident().LeaseOf)
		all.Go(func() { // one that does not respond keeps no other waiting
			if !needs {
				p.Release()
			} else if from > 0 {
				if err := p.Renew(from); err != nil && p.Keeping() {
					d.log.Warn("renew the lease of a task that has ended", "task", p.Ident().TaskID, "error", err)
				}
			}
		})
	}
}

// keeping lists the supervising processes that keep leases of tasks that have ended, and forgets those that have left.
func (d *Driver) keeping() []*supervise.Process {
	var ended []*supervise.Process
	defer func() {
		if len(ended) > 0 {
			go d.clean(ended) // the disk may hang
		}
	}()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept = slices.DeleteFunc(d.kept, func(p *supervise.Process) bool {
		hasEnded := !p.Keeping() && p.Gone()
		if hasEnded {
			ended = append(ended, p)
		}
		return hasEnded
	})
	out := slices.DeleteFunc(slices.Clone(d.kept), func(p *supervise.Process) bool { return !p.Keeping() })
	for _, t := range d.tasks {
		if t.process != nil && t.process.Keeping() {
			out = append(out, t.process)
		}
	}
	return out
}

// clean removes what processes left that kept leases and may have been killed.
func (d *Driver) clean(ended []*supervise.Process) {
	for _, p := range ended {
		if err := p.Clean(); err != nil {
			d.log.Warn("remove the socket of a process that kept a lease", "task", p.Ident().TaskID, "error", err)
		}
		d.dropLease(p.Ident().LeaseOf)
	}
}

// keep takes over a supervising process of which nothing is needed but that it keeps a lease; its task is forgotten.
func (d *Driver) keep(p *supervise.Process) {
	d.mu.Lock()
	d.detachSame(p)
	d.kept = append(d.kept, p)
	delete(d.tasks, p.Ident().TaskID)
	d.mu.Unlock()
	d.releaseKeepers(p.Ident().LeaseOf)
}

// detachSame releases a connection to the same supervising process, which keeps its lease. The caller holds the lock.
func (d *Driver) detachSame(same *supervise.Process) {
	d.kept = slices.DeleteFunc(d.kept, func(p *supervise.Process) bool {
		if p == same || p.Ident().State != same.Ident().State {
			return false
		}
		p.Detach()
		return true
	})
}

// releaseKeepers releases the processes that keep the lease of an allocation after their task, but for the last one, and of
// that too while a task runs that has the lease.
func (d *Driver) releaseKeepers(allocID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	hasKeeper := allocID != "" && slices.ContainsFunc(slices.Collect(maps.Values(d.tasks)), func(t *task) bool { return t.hasLease(allocID) })
	for _, p := range slices.Backward(d.kept) {
		if p.Ident().LeaseOf != allocID || !p.Keeping() {
			continue
		}
		if hasKeeper {
			p.Release()
		}
		hasKeeper = true
	}
}

// hasLease reports whether the task runs, and has the lease of an allocation.
func (t *task) hasLease(allocID string) bool {
	if t.process == nil || t.process.Ident().LeaseOf != allocID {
		return false
	}
	select {
	case <-t.process.Done():
		return false
	default:
		return true
	}
}

// Recall takes up the processes that keep leases of tasks which have ended and that no handle names, before any starts: an
// earlier agent has forgotten them, or had no time to. The traces of an attempt stay, for its task may look for it. It
// implements [driver.Keeper].
func (d *Driver) Recall(ctx context.Context) error {
	var errs []error
	var states []string
	tasks, kept := d.known()
	for i := range uint64(shards) {
		removeLeases(shardOf(d.leaseDir(), i))
		names, err := filepath.Glob(filepath.Join(d.shard(i), "*.sock"))
		errs = append(errs, err)
		for _, name := range names {
			if state := strings.TrimSuffix(name, ".sock"); !tasks[state] && !kept[state] {
				states = append(states, state)
			}
		}
	}
	return errors.Join(append(errs, atOnce(states, func(state string) error {
		p, err := supervise.Kept(ctx, state)
		if err == nil {
			d.keep(p)
		} else if errors.Is(err, fault.NotFound) {
			err = nil
		}
		return err
	}))...)
}

// atOnceMax is how many supervising processes are asked at once: each may be waited for.
const atOnceMax = 32

// atOnce does something for each of a list, many at once.
func atOnce(list []string, do func(string) error) error {
	errs := make([]error, len(list))
	var all errgroup.Group
	all.SetLimit(atOnceMax)
	for i, one := range list {
		all.Go(func() error { errs[i] = do(one); return nil })
	}
	_ = all.Wait() // each has its own error
	return errors.Join(errs...)
}

// removeLeases removes the files of leases that no process has.
func removeLeases(dir string) {
	names, _ := filepath.Glob(filepath.Join(dir, "*"+supervise.LeaseEnding))
	for _, name := range names {
		removeLease(name)
	}
}

// dropTries and dropPause bound the wait for a process that was killed and has not released its files.
const (
	dropTries = 100
	dropPause = 50 * time.Millisecond
)

// dropLease removes the file of an allocation's lease if no process has that, or soon will: the last one may have been killed.
func (d *Driver) dropLease(allocID string) {
	if allocID == "" || removeLease(d.leaseFile(allocID)) {
		return
	}
	go func() {
		for range dropTries {
			time.Sleep(dropPause)
			if removeLease(d.leaseFile(allocID)) {
				return
			}
		}
	}()
}

// lockAlone locks a file that no other process has. It is a variable for tests.
var lockAlone = func(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// removeLease removes the file of a lease, and reports false when a process has that. While it looks no task of the allocation
// can start.
func removeLease(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return true
	}
	defer f.Close()
	if lockAlone(f) != nil {
		return false
	}
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil || st.Nlink > 0 { // else the name is that of a newer file, which a process may have
		_ = os.Remove(name)
	}
	return true
}
