package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
)

const (
	// diskEvery is how often the node's directories are tried unless the configuration sets another time.
	diskEvery = 5 * time.Second
	// diskWait is how long a try may take before the disk counts as unresponsive.
	diskWait = 10 * time.Second
	// diskFirst is that for the first try, which the registration of the node waits for.
	diskFirst = 2 * time.Second
	// diskLeave is for how long a node that ends waits for a try.
	diskLeave = 2 * time.Second
	// diskRoom is what must fit while all is well, diskRoomAgain what must fit after trouble, and at the start of the
	// agent, before which there may have been some.
	diskRoom      = 64 << 10
	diskRoomAgain = 1 << 20

	diskProbe     = ".probe"
	diskSubsystem = "Storage"
)

// disk is one directory that the node needs to write to.
type disk struct{ what, dir string }

// disks lists the directories without which nothing new can run.
func (c *Client) disks() []disk {
	return []disk{{"Client state", c.conf.StateDir}, {"Allocation directory", c.conf.AllocDir}}
}

// watchDisks checks periodically, and at once after a failed write, whether the node can write its directories. While
// it cannot, its task drivers are unhealthy, so that nothing new is placed; running tasks continue.
func (c *Client) watchDisks(ctx context.Context) error {
	tick := time.NewTicker(cmp.Or(c.conf.DiskInterval, diskEvery))
	defer tick.Stop()
	limited := newLimitWatch()
	trouble, wait, room := "", diskFirst, int64(diskRoomAgain)
	for {
		next, full := c.tryDisks(ctx, trouble, wait, room)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if next != trouble {
			c.setTrouble(next)
			if trouble = next; full {
				c.wakeCollect()
				c.reportExcess(ctx)
			}
		}
		if wait, room = diskWait, diskRoom; trouble != "" {
			room = diskRoomAgain
		}
		c.disksTried()
		limited.look(c)
		select {
		case <-tick.C:
		case <-c.db.Trouble():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryDisks describes what is wrong with the disks; empty when so many bytes can be written. A disk that hangs for
// longer than wait is shown as unresponsive until it responds. It reports full when no space is left.
func (c *Client) tryDisks(ctx context.Context, before string, wait time.Duration, room int64) (trouble string, full bool) {
	done := make(chan error, 1)
	go func() {
		for _, d := range c.disks() {
			if err := tryDisk(d.dir, room); err != nil {
				done <- fmt.Errorf("%s cannot be written: %w", d.what, err)
				return
			}
		}
		done <- nil
	}()
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case err := <-done:
		return described(err)
	case <-ctx.Done(): // what is being written is taken away before the node ends, unless the disk hangs
		select {
		case <-done:
		case <-time.After(diskLeave):
		}
		return before, false
	case <-limit.C:
	}
	text := fmt.Sprintf("Client state cannot be written: the disk has not responded for %s", wait)
	if before == "" {
		c.setTrouble(text)
		c.disksTried()
	}
	select {
	case err := <-done:
		if err == nil && before == "" {
			c.setTrouble("")
		}
		return described(err)
	case <-ctx.Done():
		return before, false
	}
}

func described(err error) (text string, full bool) {
	if err == nil {
		return "", false
	}
	return err.Error(), errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// tryDisk writes to the directory what takes the room of so many bytes, and takes it away again.
func tryDisk(dir string, room int64) (err error) {
	path := filepath.Join(dir, diskProbe)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return cause(err, dir)
	}
	defer func() {
		err = cause(errors.Join(err, f.Close(), os.Remove(path)), dir)
	}()
	if room > diskRoom {
		switch err := unix.Fallocate(int(f.Fd()), 0, 0, room); {
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
		case err != nil:
			return err
		}
	}
	if _, err := f.Write(make([]byte, diskRoom)); err != nil {
		return err
	}
	return f.Sync()
}

// cause leaves of an error what users understand, and names the directory.
func cause(err error, dir string) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w (%s)", err, dir)
}

// setTrouble makes the node one that takes nothing new because of the trouble, or, when it is empty, one
// that does again.
func (c *Client) setTrouble(trouble string) {
	e := &api.NodeEvent{Subsystem: diskSubsystem, Message: trouble, Timestamp: time.Now(), Details: map[string]string{}}
	for _, d := range c.disks() {
		e.Details[d.what] = d.dir
	}
	if trouble == "" {
		e.Message = "Client state and allocation directory can be written again"
		c.log.Info("disk can be written again")
	} else {
		c.log.Error("the node takes no new work", "reason", trouble)
	}
	c.node.trouble(trouble, e)
}
