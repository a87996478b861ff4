package rawexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise"
)

// Prune kills and removes the attempts in the state directory that this driver does not know, except those in keep, and
// returns the ids of those that ran. Call it after every stored handle was recovered. Unless all is set, more attempts may
// be recovered later: Prune then kills only those that run with mounts of their own, because what manages the mounts does
// not know these attempts.
func (d *Driver) Prune(ctx context.Context, keep []string, all bool) ([]string, error) {
	keepStates := map[string]bool{}
	for _, id := range keep {
		keepStates[d.statePath(id)] = true
	}
	var unknown, pruned []string
	var errs []error
	for i := range uint64(shards) {
		states, err := statesIn(d.shard(i))
		errs = append(errs, err)
		tasks, kept := d.known()
		for _, state := range states {
			switch {
			case keepStates[state] || tasks[state]:
				continue
			case kept[state]:
				if all {
					errs = append(errs, supervise.RemoveExit(state))
				}
				continue
			}
			unknown = append(unknown, state)
		}
	}
	var mu sync.Mutex
	errs = append(errs, atOnce(unknown, func(state string) error {
		id, err := d.prune(ctx, state, all)
		if err == nil && id != "" {
			mu.Lock()
			defer mu.Unlock()
			pruned = append(pruned, id)
		}
		return err
	}))
	if all {
		d.removeUnused()
	}
	slices.Sort(pruned)
	return pruned, errors.Join(errs...)
}

// statesIn lists the state paths in a directory of which there are files.
func statesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("look for forgotten tasks: %w", err)
	}
	var out []string
	for _, e := range entries {
		name := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(e.Name(), ".sock"), ".exit"), ".lock")
		if name != e.Name() {
			out = append(out, filepath.Join(dir, name))
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// known are the state paths of tasks, and of supervising processes of which nothing is needed but that they keep leases.
func (d *Driver) known() (tasks, kept map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	tasks, kept = make(map[string]bool, len(d.tasks)), make(map[string]bool, len(d.kept))
	for id := range d.tasks {
		tasks[d.statePath(id)] = true
	}
	for _, p := range d.kept {
		kept[p.Ident().State] = true
	}
	return tasks, kept
}

func (d *Driver) prune(ctx context.Context, state string, all bool) (string, error) {
	id, err := d.find(ctx, state)
	switch {
	case errors.Is(err, fault.NotFound) && all:
		return "", supervise.Remove(state)
	case errors.Is(err, fault.NotFound):
		return "", nil
	case err != nil:
		return "", err
	case !all && !ownMounts(id.TaskPID):
		return "", nil
	}
	p, err := supervise.Attach(ctx, id)
	if err != nil {
		return "", err
	}
	t := &task{process: p}
	if err := t.kill(ctx); err != nil {
		return "", err
	}
	if p.Keeping() {
		d.keep(p)
		return id.TaskID, supervise.RemoveExit(state)
	}
	return id.TaskID, supervise.Remove(state)
}

// ownMounts reports whether a process sees other mounts than the agent.
func ownMounts(pid int) bool {
	ours, err := os.Readlink("/proc/self/ns/mnt")
	theirs, err2 := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/mnt")
	return err == nil && err2 == nil && ours != theirs
}

// Find returns the handle of an attempt that runs, or whose exit is on record. An attempt counts as running if its
// supervising process does not respond, because its start may hang, or if that process has vanished while the kernel
// does not end what it left. It implements [driver.Finder].
func (d *Driver) Find(ctx context.Context, id string) (*driver.Handle, error) {
	state := d.statePath(id)
	if !leftTraces(state) {
		return nil, fault.New(fault.NotFound, "task %s of driver %s", id, d.Name())
	}
	ident, err := d.find(ctx, state)
	if errors.Is(err, fault.Unavailable) {
		if h, ok := supervise.Holder(state); ok {
			h.Cgroup, h.Scopes = d.cgroupsOf(state)
			ident = h
		}
		if ident.State != "" {
			ident.TaskID, err = id, nil
		}
	}
	if x, ok := supervise.ExitOf(state); err != nil && ok {
		ident, err = supervise.Ident{State: state, TaskID: id, StartedAt: x.FinishedAt}, nil
	}
	if err != nil {
		return nil, err
	}
	if ident.TaskID != id {
		return nil, fault.New(fault.NotFound, "task %s of driver %s: task %s is in its place", id, d.Name(), ident.TaskID)
	}
	return d.handleOf(ident)
}

// find queries the supervising process behind a state path. If that process has vanished, find ends what it left,
// whichever driver the attempt belongs to, because no process supervises it. If the kernel does not end it, find
// returns an error of class fault.Unavailable and the ident that identifies it.
func (d *Driver) find(ctx context.Context, state string) (supervise.Ident, error) {
	id, err := supervise.Find(ctx, state)
	if err == nil {
		id.Cgroup, id.Scopes = d.cgroupsOf(state)
		return id, nil
	}
	if !errors.Is(err, fault.NotFound) {
		return supervise.Ident{}, err
	}
	cgroup, scopes := d.cgroupsOf(state)
	id, left := supervise.EndLeftovers(ctx, state, cgroup, scopes)
	if len(left) == 0 {
		return supervise.Ident{}, err
	}
	return id, fault.New(fault.Unavailable, "end what is left at %s: %s", state, driver.Explain(remainsOf(left)))
}

// cgroupsOf are the cgroup of version 2 and those of version 1 that the task with that state path has.
func (d *Driver) cgroupsOf(state string) (cgroup string, scopes []string) {
	name := filepath.Base(state)
	if cgroup = d.host().Cgroup(name); cgroup != "" {
		if _, err := os.Stat(cgroup); err != nil {
			cgroup = ""
		}
	}
	return cgroup, d.host().Scopes(name)
}
