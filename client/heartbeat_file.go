package client

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	// heardFile holds the boot, and when the last successful heartbeat was sent, while the node has groups that may run
	// only for a limited time without servers. A restarted agent must not begin that time again, because the servers
	// replace such groups.
	heardFile = "heard"
	// aloneGrace is how long a process asks the servers first when that time had passed before it began.
	aloneGrace = 5 * time.Second
)

// readHeartbeatFile reads the note of an earlier agent process. Times of another boot are ignored.
func (c *Client) readHeartbeatFile() {
	c.heardBefore = c.lease.born
	body, err := os.ReadFile(filepath.Join(c.conf.StateDir, heardFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Warn("when a server answered last is not known: groups with stop_on_client_after may run for longer without servers", "error", err)
	}
	var boot string
	var sent int64
	if n, _ := fmt.Sscan(string(body), &boot, &sent); n == 2 && boot == thisBoot() && sent > 0 && sent < c.heardBefore {
		c.heardBefore = sent
	}
	c.heardNoted = err == nil
}

// storeHeartbeat notes when the last answered heartbeat was sent, while that matters. It does not wait for the disk: an older note
// ends groups early, and only after a restart.
func (c *Client) storeHeartbeat(sent int64) {
	path := filepath.Join(c.conf.StateDir, heardFile)
	matters := false
	for _, e := range c.table.all() {
		matters = matters || aloneMax(e.alloc.Present().Group()) > 0
	}
	switch {
	case matters:
		c.heardNoted = true
		c.files.heard.begin(func() error {
			err := os.WriteFile(path+".new", fmt.Appendln(nil, thisBoot(), sent), 0o600)
			if err == nil {
				err = os.Rename(path+".new", path)
			}
			if err != nil {
				c.log.Warn("note when a server answered last", "error", err)
			}
			return err
		})
	case c.heardNoted:
		c.heardNoted = false
		c.files.heard.begin(func() error { return os.Remove(path) })
	}
}

// alone is for how long no server has answered, as far as that ends anything.
func (c *Client) alone() time.Duration {
	now := bootTime()
	last := c.answered.Load()
	if last == 0 {
		if now-c.lease.born < int64(aloneGrace) {
			return 0
		}
		last = c.heardBefore
	}
	return time.Duration(now - last)
}
