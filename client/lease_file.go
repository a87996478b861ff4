package client

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	hostmounts "github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// leaseFile holds the boot, when the last successful heartbeat was sent, and the shortest lease: a restarted agent must
// not begin leases again. It is written before anything is mounted under a lease. It need not survive the boot, so no
// write waits for the disk.
const leaseFile = "lease"

// longAgo is before all that leases may count from.
const longAgo = math.MinInt64 / 2

// readLeaseFile reads the note of an earlier agent process. Without one, leases of what is mounted have expired: it is
// unknown for how long the servers have been silent.
func (c *Client) readLeaseFile() {
	body, err := os.ReadFile(filepath.Join(c.conf.StateDir, leaseFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Warn("the last heartbeat before the start is not known", "error", err)
	}
	var boot string
	var from int64
	var term api.LeaseTerm
	n, _ := fmt.Sscan(string(body), &boot, &from, &term.Term, &term.WriteBack)
	if n >= 2 && boot == thisBoot() && from > 0 && from <= bootTime() {
		c.lease.from.Store(from)
		c.lease.noted.Store(true)
		if c.volumes != nil {
			c.volumes.Presume(term)
		}
		return
	}
	if c.volumes != nil && c.volumes.ShortestLease().Term > 0 {
		c.log.Warn("volumes are mounted under leases, and there is no note of the last heartbeat: the leases are over")
		c.lease.lost = true
	}
}

func thisBoot() string { return cmp.Or((hostmounts.System{}).BootID(), "-") }

// promiseWait bounds the wait for the disk before something is mounted under a lease.
const promiseWait = 5 * time.Second

// storeLease notes when the last answered heartbeat was sent, while that matters. It does not wait for the disk: an older
// note ends the leases early, and only after a restart.
func (c *Client) storeLease() {
	if c.volumes == nil || c.volumes.ShortestLease().Term <= 0 {
		return
	}
	c.files.lease.begin(c.writeLeaseFile)
}

// promise is called when something is about to be mounted under a lease.
func (c *Client) promise() error {
	err := c.files.lease.await(c.writeLeaseFile, promiseWait)
	if err != nil && !c.lease.noted.Load() { // an older note ends the lease early, without one all have expired
		return fault.New(fault.Unavailable, "store the time of the last heartbeat, from which its lease counts: %w", err)
	}
	return nil
}

// writeLeaseFile writes the note; once there are no leases it is removed: the next one does not begin that long ago.
func (c *Client) writeLeaseFile() error {
	path := filepath.Join(c.conf.StateDir, leaseFile)
	l := c.volumes.ShortestLease()
	if l.Term <= 0 {
		err := os.Remove(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.log.Warn("forget the last heartbeat", "error", err)
			return err
		}
		c.lease.noted.Store(false)
		return nil
	}
	body := fmt.Sprintln(thisBoot(), max(c.lease.since(), 0), int64(l.Term), int64(l.WriteBack))
	err := os.WriteFile(path+".new", []byte(body), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		c.log.Warn("note the last heartbeat: after a restart leases would end early", "error", err)
		return err
	}
	c.lease.noted.Store(true)
	return nil
}

// removeLeaseFile forgets the note once there are no leases.
func (c *Client) removeLeaseFile() {
	if c.lease.noted.Load() && c.volumes.ShortestLease().Term <= 0 {
		c.files.lease.begin(c.writeLeaseFile)
	}
}
