package tasks

import (
	"context"
	"slices"

	"github.com/open-nomad/open-nomad/plugins/driver"
)

// Tell records an event of some tasks; names that the group does not have are left out.
func (g *Group) Tell(names []string, kind, text string) {
	for _, t := range g.named(names) {
		t.emit(message(kind, text))
	}
}

// RestartFor restarts those of the tasks that run, for a reason of the node; the restart policy does not count it.
func (g *Group) RestartFor(ctx context.Context, names []string, reason string) error {
	for _, t := range g.named(names) {
		if !t.active() {
			continue
		}
		if err := t.askRestart(ctx, reason); err != nil {
			return err
		}
	}
	return nil
}

// SignalFor sends a signal to those of the tasks that run, for a reason of the node.
func (g *Group) SignalFor(ctx context.Context, names []string, signal, reason string) error {
	if _, err := driver.ParseSignal(signal); err != nil {
		return err
	}
	for _, t := range g.named(names) {
		d, id, err := t.alive()
		if err != nil {
			continue
		}
		t.emit(signaling(signal, reason))
		if err := d.Signal(ctx, id, signal); err != nil {
			return err
		}
	}
	return nil
}

// Names are the names of the group's tasks.
func (g *Group) Names() []string {
	out := make([]string, 0, len(g.tasks))
	for _, t := range g.tasks {
		out = append(out, t.name)
	}
	return out
}

// Upcoming are the driver's ids of the next attempts of the group's tasks, and of those on record that have not ended: one
// that was found is recorded before the driver takes it up.
func (g *Group) Upcoming() []string {
	out := make([]string, 0, 2*len(g.tasks))
	for _, t := range g.tasks {
		t.mu.Lock()
		number, held := t.rec.Attempt, len(t.rec.Handle) > 0
		t.mu.Unlock()
		if held {
			out = append(out, Attempt(g.conf.Alloc.ID, t.name, number))
		}
		out = append(out, Attempt(g.conf.Alloc.ID, t.name, number+1))
	}
	return out
}

func (g *Group) named(names []string) []*task {
	return slices.DeleteFunc(slices.Clone(g.tasks), func(t *task) bool { return !slices.Contains(names, t.name) })
}
