package engine

import (
	"context"
	"time"

	"github.com/moby/moby/client"
)

// oomWait is how long after the end of a container the engine may report what killed it.
const oomWait = time.Second

// OutOfMemory reports whether the engine has seen a container run out of memory. The engine may describe an exited
// container without it: it learns of the end and of the cause from different sources.
func OutOfMemory(ctx context.Context, c *client.Client, container string, started time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, oomWait)
	defer cancel()
	events := c.Events(ctx, client.EventsListOptions{
		Since: started.Format(time.RFC3339Nano), Filters: client.Filters{}.Add("container", container).Add("event", "oom"),
	})
	select {
	case <-events.Messages:
		return true
	case <-events.Err:
	case <-ctx.Done():
	}
	return false
}
