package client

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	hostmounts "github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

const (
	// endMargin is how long a development node waits for its allocations to end beyond the longest kill timeout:
	// first for those that use plugins, then for those that run them.
	endMargin = 10 * time.Second
	// unmountWait bounds unmounting what is left after that.
	unmountWait = 10 * time.Second
)

// endAll stops all allocations and waits, bounded, until they are down: plugins last, for the others need them
// to unmount.
func (c *Client) endAll(ctx context.Context) {
	var users, plugins []*entry
	for _, e := range c.table.all() {
		if runsPlugin(e.alloc.Present()) {
			plugins = append(plugins, e)
		} else {
			users = append(users, e)
		}
	}
	for _, round := range [][]*entry{users, plugins} {
		c.endEach(ctx, round)
	}
}

func (c *Client) endEach(ctx context.Context, entries []*entry) {
	ctx, cancel := context.WithTimeout(ctx, c.conf.MaxKillTimeout+endMargin)
	defer cancel()
	for _, e := range entries {
		a := *e.alloc.Present()
		a.DesiredTransition.NoShutdownDelay = true
		e.alloc.Update(&a)
		e.alloc.Stop()
	}
	for _, e := range entries {
		select {
		case <-e.alloc.Down():
		case <-ctx.Done():
			c.log.Warn("allocation did not end in time", "alloc_id", e.alloc.ID())
		}
	}
}

// runsPlugin reports whether a task of the allocation provides a CSI plugin.
func runsPlugin(a *api.Allocation) bool {
	if a == nil || a.Group() == nil {
		return false
	}
	return slices.ContainsFunc(a.Group().Tasks, func(t *api.Task) bool { return t.CSIPluginConfig != nil })
}

// hostVolumesDir is where dynamic host volumes are made.
func (c *Client) hostVolumesDir() string {
	return cmp.Or(c.conf.HostVolumesDir, filepath.Join(c.conf.StateDir, "host_volumes"))
}

// unmountLeftovers removes mounts below the node's directories that outlived their users, the innermost first, because
// no later process would. A mount that hangs or is busy stays, and so does its directory.
func (c *Client) unmountLeftovers() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, dir := range []string{c.conf.AllocDir, c.conf.StateDir, c.hostVolumesDir()} {
			left, err := hostmounts.Below(dir)
			if err != nil {
				c.log.Warn("look for mounts that are left", "dir", dir, "error", err)
			}
			for _, m := range slices.Backward(left) {
				if err := hostmounts.Remove(m); err != nil {
					c.log.Warn("a mount is left", "path", m.Point, "error", err)
				}
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(unmountWait):
		c.log.Warn("mounts are left: unmounting them hangs", "waited", unmountWait)
	}
}
