package rawexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise"
)

// Prune kills and forgets the tasks in the state directory that this driver does not know, and returns
// their ids. Call it once, after every stored handle was recovered and before the first Start.
func (d *Driver) Prune(ctx context.Context) ([]string, error) {
	entries, err := os.ReadDir(d.config.StateDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for forgotten tasks: %w", err)
	}
	known := d.knownStates()
	var pruned []string
	var errs []error
	seen := map[string]bool{}
	for _, e := range entries {
		state := filepath.Join(d.config.StateDir, strings.TrimSuffix(strings.TrimSuffix(e.Name(), ".sock"), ".exit"))
		if state == filepath.Join(d.config.StateDir, e.Name()) || known[state] || seen[state] {
			continue
		}
		seen[state] = true
		id, err := prune(ctx, state)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if id != "" {
			pruned = append(pruned, id)
		}
	}
	return pruned, errors.Join(errs...)
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
