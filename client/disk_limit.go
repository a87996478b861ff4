package client

import (
	"strconv"

	"github.com/open-nomad/open-nomad/client/dirquota"
)

// attributeQuota is the node attribute that names how the sizes of ephemeral disks are enforced. Without it they are not.
const attributeQuota = "storage.quota"

// limitSizes makes the ephemeral disks of new allocations ones that have a limit, where the file system and the operator allow that.
func (c *Client) limitSizes() {
	if v, set := c.conf.Options[optionSize]; set {
		if on, err := strconv.ParseBool(v); err != nil {
			c.log.Warn("this client option is neither true nor false: sizes are enforced where that is possible", "option", optionSize, "value", v)
		} else if !on {
			return
		}
	}
	kind, err := dirquota.Detect(c.conf.AllocDir)
	if err != nil {
		c.log.Debug("the sizes of ephemeral disks are not enforced", "reason", err)
		return
	}
	c.log.Info("the sizes of ephemeral disks are enforced", "by", kind)
	c.quota = kind
	c.tree = c.tree.Limited(kind)
}

// limitWatch notifies the tasks of allocations whose ephemeral disks are full: their own writes fail, and their output is dropped.
type limitWatch struct {
	// notified are the allocations whose tasks were notified.
	notified map[string]bool
	// idle holds a token while no look is under way: a disk that hangs holds up one of them only.
	idle chan struct{}
}

func newLimitWatch() *limitWatch {
	w := &limitWatch{notified: map[string]bool{}, idle: make(chan struct{}, 1)}
	w.idle <- struct{}{}
	return w
}

func (w *limitWatch) look(c *Client) {
	if c.quota == dirquota.None {
		return
	}
	select {
	case <-w.idle:
	default:
		return
	}
	go func() {
		defer func() { w.idle <- struct{}{} }()
		full := map[string]bool{}
		for _, e := range c.table.all() {
			select {
			case <-e.alloc.Ended():
				continue
			default:
			}
			id, g := e.alloc.ID(), e.alloc.Present().Group()
			if g == nil || g.EphemeralDisk == nil || !e.alloc.Dir().Full() {
				continue
			}
			if full[id] = true; !w.notified[id] {
				c.log.Warn("allocation has used all of its ephemeral disk", "alloc_id", id, "ephemeral_disk_mib", g.EphemeralDisk.SizeMB)
				e.alloc.TellDisk("The allocation has used the %d MiB of its ephemeral disk: what it writes fails, and output of its tasks is dropped", g.EphemeralDisk.SizeMB)
			}
		}
		w.notified = full
	}()
}
