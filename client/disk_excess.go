package client

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/allocs"
	"github.com/open-nomad/open-nomad/client/diskuse"
)

const (
	// excessWait bounds the measurement of what the allocations use; those that are not measured by then are not named.
	excessWait = 5 * time.Second
	// excessMax is how many allocations are named.
	excessMax = 3
)

// excess is an allocation that uses more of the disk than its group has asked for.
type excess struct {
	alloc   *allocs.Alloc
	used    int64 // bytes
	allowed int64 // MiB
}

func (e *excess) text() string {
	return fmt.Sprintf("The disk of the node is full: allocation %s of job %q uses %d MiB of it, its ephemeral disk has %d MiB",
		e.alloc.ID(), e.alloc.Present().JobID, e.used>>20, e.allowed)
}

// reportExcess names, in events of the node and of the tasks, the allocations that use most of a full disk beyond their own
// ephemeral disks.
func (c *Client) reportExcess(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, excessWait)
	defer cancel()
	done := make(chan []excess, 1)
	go func() { done <- c.excesses(ctx) }()
	var found []excess
	select {
	case found = <-done:
	case <-ctx.Done(): // a disk may hang
		return
	}
	for _, e := range found {
		c.log.Warn("allocation exceeds its ephemeral disk", "alloc_id", e.alloc.ID(), "used_mib", e.used>>20, "ephemeral_disk_mib", e.allowed)
		c.node.tell(&api.NodeEvent{
			Subsystem: diskSubsystem, Message: e.text(), Timestamp: time.Now(), Details: map[string]string{"alloc_id": e.alloc.ID()},
		})
		e.alloc.TellDisk("%s", e.text())
	}
}

// excesses lists the largest excesses first.
func (c *Client) excesses(ctx context.Context) (out []excess) {
	for _, e := range c.table.all() {
		g := e.alloc.Present().Group()
		if g == nil || g.EphemeralDisk == nil {
			continue
		}
		used, err := diskuse.Bytes(ctx, e.alloc.Dir().Dir())
		if allowed := int64(g.EphemeralDisk.SizeMB); used > allowed<<20 {
			out = append(out, excess{e.alloc, used, allowed})
		}
		if err != nil && ctx.Err() != nil {
			break
		}
	}
	slices.SortFunc(out, func(a, b excess) int { return cmp.Compare(b.used-b.allowed<<20, a.used-a.allowed<<20) })
	return out[:min(len(out), excessMax)]
}
