package client

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/store"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// adoptWait bounds taking up the tasks of an earlier agent process before allocations are led again.
const adoptWait = 10 * time.Second

// pruner is a driver that can end tasks which nobody took up: those of a crash between the start of a task
// and the record of its handle, or of a lost database.
type pruner interface {
	Prune(ctx context.Context) ([]string, error)
}

// adopted is a driver whose stored handles were taken up at the start, all before anything is pruned. Each
// answer is given to the task that asks for it, once.
type adopted struct {
	driver.Driver
	mu      sync.Mutex
	answers map[string]error
	// unsure is set when a handle could be neither taken up nor given up: nothing is pruned then.
	unsure bool
}

// Recover tells how taking up the handle went.
func (a *adopted) Recover(ctx context.Context, h *driver.Handle) error {
	a.mu.Lock()
	err, known := a.answers[h.TaskID]
	delete(a.answers, h.TaskID)
	a.mu.Unlock()
	if known {
		return err
	}
	return a.Driver.Recover(ctx, h)
}

// Renew passes the news on. It implements [driver.Lessee]; an error of class fault.Unimplemented means that
// the driver keeps no leases.
func (a *adopted) Renew(id string, from int64) error {
	l, ok := a.Driver.(driver.Lessee)
	if !ok {
		return fault.New(fault.Unimplemented, "driver %s keeps no leases", a.Name())
	}
	return l.Renew(id, from)
}

// Remains passes the question on. It implements [driver.Remainer].
func (a *adopted) Remains(id string) []driver.Remain {
	if r, ok := a.Driver.(driver.Remainer); ok {
		return r.Remains(id)
	}
	return nil
}

// adopt takes up all running tasks of an earlier agent process and ends those that it does not know.
func (c *Client) adopt(ctx context.Context, records map[string]*store.AllocRecord) {
	ctx, cancel := context.WithTimeout(ctx, adoptWait)
	defer cancel()
	var all sync.WaitGroup
	for _, r := range records {
		for _, t := range r.Tasks {
			var h driver.Handle
			if len(t.Handle) == 0 || json.Unmarshal(t.Handle, &h) != nil {
				continue
			}
			if d := c.drivers[h.Driver]; d != nil {
				all.Go(func() { d.adopt(ctx, &h) })
			}
		}
	}
	all.Wait()
	for name, d := range c.drivers {
		p, ok := d.Driver.(pruner)
		if !ok || d.unsure {
			continue
		}
		switch ended, err := p.Prune(ctx); {
		case err != nil:
			c.log.Warn("end tasks that nobody knows", "driver", name, "error", err)
		case len(ended) > 0:
			c.log.Warn("ended tasks that nobody knew", "driver", name, "tasks", ended)
		}
	}
}

func (a *adopted) adopt(ctx context.Context, h *driver.Handle) {
	err := a.Driver.Recover(ctx, h)
	a.mu.Lock()
	defer a.mu.Unlock()
	if errors.Is(err, fault.Unavailable) || ctx.Err() != nil {
		a.unsure = true // the task asks again
		return
	}
	a.answers[h.TaskID] = err
}
