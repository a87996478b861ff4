package rawexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise"
)

// Prune kills and forgets the tasks in the state directory that this driver does not know, and returns
// their ids. Call it once, after every stored handle was recovered and before the first Start.
func (d *Driver) Prune(ctx context.Context) ([]string, error) {
	known := d.knownStates()
	var pruned []string
	var errs []error
	for i := range uint64(shards) {
		states, err := statesIn(d.shard(i))
		errs = append(errs, err)
		for _, state := range states {
			if known[state] {
				continue
			}
			id, err := prune(ctx, state)
			errs = append(errs, err)
			if err == nil && id != "" {
				pruned = append(pruned, id)
			}
		}
	}
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
		name := strings.TrimSuffix(strings.TrimSuffix(e.Name(), ".sock"), ".exit")
		if name != e.Name() {
			out = append(out, filepath.Join(dir, name))
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func (d *Driver) knownStates() map[string]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]bool{}
	for _, t := range d.tasks {
		if t.process != nil {
			out[t.process.Ident().State] = true
		}
	}
	return out
}

func prune(ctx context.Context, state string) (string, error) {
	id, err := supervise.Find(ctx, state)
	if errors.Is(err, fault.NotFound) {
		return "", supervise.Remove(state)
	}
	if err != nil {
		return "", err
	}
	p, err := supervise.Attach(ctx, id)
	if err != nil {
		return "", err
	}
	t := &task{process: p}
	if err := t.kill(ctx); err != nil {
		return "", err
	}
	return id.TaskID, supervise.Remove(state)
}
