package client

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	hostmounts "github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// leaseFile holds the boot and when the last answered heartbeat was sent, while there are leases: an agent that
// is restarted must not begin them anew. It needs not survive the boot, so that nothing waits for the disk.
const leaseFile = "lease"

func (c *Client) recallLease() {
	body, err := os.ReadFile(filepath.Join(c.conf.StateDir, leaseFile))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			c.log.Warn("the last heartbeat before the start is not known", "error", err)
		}
		return
	}
	boot, at, _ := strings.Cut(strings.TrimSpace(string(body)), " ")
	if from, err := strconv.ParseInt(at, 10, 64); err == nil && boot == (hostmounts.System{}).BootID() && from <= bootTime() {
		c.lease.from.Store(from)
		c.lease.noted = true
	}
}

// keepLease notes when the last answered heartbeat was sent, while that matters.
func (c *Client) keepLease(sent int64) {
	if c.volumes == nil || c.volumes.ShortestLease().Term <= 0 {
		return
	}
	c.lease.file.Lock()
	defer c.lease.file.Unlock()
	path := filepath.Join(c.conf.StateDir, leaseFile)
	body := (hostmounts.System{}).BootID() + " " + strconv.FormatInt(sent, 10) + "\n"
	err := os.WriteFile(path+".new", []byte(body), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if c.lease.noted = err == nil; err != nil {
		c.log.Warn("note the last heartbeat: after a restart leases would end early", "error", err)
	}
}

// dropLease forgets the note once there are no leases: the next one does not begin that long ago.
func (c *Client) dropLease() {
	c.lease.file.Lock()
	defer c.lease.file.Unlock()
	if !c.lease.noted || c.volumes.ShortestLease().Term > 0 {
		return
	}
	if err := os.Remove(filepath.Join(c.conf.StateDir, leaseFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Warn("forget the last heartbeat", "error", err)
		return
	}
	c.lease.noted = false
}
