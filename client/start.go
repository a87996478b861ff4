package client

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/store"
	"github.com/open-nomad/open-nomad/internal/slow"
)

// errHangs is the outcome of a start that was ended while it waited for a disk.
var errHangs = errors.New("it hangs")

// first runs one step of the start, and reports a long step in the log and by [Client.Waits]. It does not wait for a
// step that hangs once ctx has ended.
func (c *Client) first(ctx context.Context, what, path string, do func() error) error {
	done := make(chan error, 1)
	text := what + " at " + path
	c.waits.Store(&text)
	over := slow.Begin(c.log, what, path)
	go func() { done <- do() }()
	defer over()
	defer c.waits.Store(nil)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(diskLeave):
		return fault.New(fault.Unavailable, "%s: %w", text, errHangs)
	}
}

// Waits returns the present step of the node's start; it is empty once the start has ended.
func (c *Client) Waits() string {
	if w := c.waits.Load(); w != nil {
		return *w
	}
	return ""
}

// takeOver looks at the host, reads what an earlier agent process has left, and takes up its tasks.
func (c *Client) takeOver(ctx, life context.Context) (map[string]*store.AllocRecord, error) {
	if err := c.first(ctx, "look at the host", c.conf.AllocDir, func() error { return c.fill(ctx) }); err != nil {
		return nil, err
	}
	var records map[string]*store.AllocRecord
	err := c.first(ctx, "read the stored allocations", filepath.Join(c.conf.StateDir, databaseFile), func() (err error) {
		records, err = c.db.Allocs()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("start client: %w", err)
	}
	err = c.first(ctx, "recover the tasks", c.conf.RawExec.StateDir, func() error {
		c.adopt(life, records)
		c.volumes.Restored(known(records))
		c.networks.Restored(ctx, func(id string) bool { return records[id] != nil })
		return nil
	})
	return records, err
}
