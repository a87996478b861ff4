package fingerprint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/retry"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

const (
	reopenMin = 5 * time.Second
	reopenMax = 2 * time.Minute

	failedDescription = "failed to fingerprint driver"
)

var errClosed = errors.New("fingerprint channel closed")

// DriverChange is news about one driver.
type DriverChange struct {
	Name string
	// Info is what is known now; it is the receiver's own.
	Info *api.DriverInfo
	// Attributes are the node attributes of the driver; an empty value removes one.
	Attributes map[string]string
	// Event is set when health changed after the first report.
	Event *api.NodeEvent
}

// Drivers follows the health of task drivers. Use NewDrivers, then Run.
type Drivers struct {
	drivers []driver.Driver
	update  func(DriverChange)
	log     hclog.Logger

	mu      sync.Mutex
	known   map[string]*watched
	waiting int           // drivers without a first report
	first   chan struct{} // closed when waiting is 0
}

// watched is what is known of one driver; info is nil until it reports.
type watched struct {
	info       *api.DriverInfo
	attributes map[string]string
	reported   bool // its first report or failure was seen
}

// NewDrivers makes a watcher. The callback gets every change, one at a time per driver, and must not block
// for long.
func NewDrivers(drivers []driver.Driver, update func(DriverChange), log hclog.Logger) *Drivers {
	d := &Drivers{
		drivers: drivers, update: update, log: log.Named("drivers"), known: map[string]*watched{},
		waiting: len(drivers), first: make(chan struct{}),
	}
	for _, one := range drivers {
		d.known[one.Name()] = &watched{}
	}
	if d.waiting == 0 {
		close(d.first)
	}
	return d
}

// Run follows all drivers until the context ends.
func (d *Drivers) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, one := range d.drivers {
		wg.Go(func() { d.follow(ctx, one) })
	}
	wg.Wait()
	return ctx.Err()
}

// follow reads one driver's channel and opens the next when it closes, unless the context has ended. A
// channel that worked for a while is replaced at once, any other after a pause.
func (d *Drivers) follow(ctx context.Context, one driver.Driver) {
	pauses := retry.Between(reopenMin, reopenMax)
	for ctx.Err() == nil {
		opened := time.Now()
		got, err := d.read(ctx, one)
		if ctx.Err() != nil {
			return
		}
		d.report(one.Name(), driver.Fingerprint{Err: err})
		if got {
			pauses.Reset()
			if time.Since(opened) >= reopenMin {
				continue
			}
		}
		pauses.Wait(ctx)
	}
}

// read reports whatever comes out of one channel and whether anything did.
func (d *Drivers) read(ctx context.Context, one driver.Driver) (bool, error) {
	ch, err := one.Fingerprint(ctx)
	if err != nil {
		return false, err
	}
	got := false
	for {
		select {
		case f, open := <-ch:
			if ctx.Err() != nil {
				return got, ctx.Err()
			}
			if !open {
				return got, errClosed
			}
			got = true
			d.report(one.Name(), f)
		case <-ctx.Done():
			return got, ctx.Err()
		}
	}
}

// report records one fingerprint and calls the callback when it changes anything.
func (d *Drivers) report(name string, f driver.Fingerprint) {
	change, first := d.record(name, f)
	switch {
	case f.Err != nil && !errors.Is(f.Err, errClosed):
		d.log.Warn("driver fingerprint failed", "driver", name, "error", f.Err)
	case first:
		d.log.Debug("initial driver fingerprint", "driver", name, "health", f.Health, "description", f.Description)
	case change != nil && change.Event != nil:
		d.log.Info("driver health changed", "driver", name, "health", f.Health, "description", f.Description)
	}
	if change != nil {
		d.update(*change)
	}
	if first {
		d.arrived()
	}
}

func (d *Drivers) record(name string, f driver.Fingerprint) (*DriverChange, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.known[name]
	first := !w.reported
	w.reported = true
	if errors.Is(f.Err, errClosed) && w.info != nil {
		return nil, first // a driver may close its channel and go on with a new one
	}
	next := merge(w.info, f)
	attributes := attributesOf(name, next)
	for k := range w.attributes {
		if _, kept := attributes[k]; !kept {
			attributes[k] = ""
		}
	}
	if w.info != nil && sameHealth(w.info, next) && maps.Equal(w.attributes, attributes) {
		return nil, first
	}
	change := &DriverChange{Name: name, Attributes: maps.Clone(attributes)}
	if w.info != nil && !sameHealth(w.info, next) && next.HealthDescription != "" {
		change.Event = &api.NodeEvent{
			Message: next.HealthDescription, Subsystem: "Driver",
			Details: map[string]string{"driver": name}, Timestamp: next.UpdateTime,
		}
	}
	w.info, w.attributes = next, attributes
	change.Info = clone(next)
	return change, first
}

func merge(old *api.DriverInfo, f driver.Fingerprint) *api.DriverInfo {
	next := &api.DriverInfo{HealthDescription: f.Description, Attributes: map[string]string{}, UpdateTime: time.Now()}
	if f.Err != nil {
		next.HealthDescription = failedDescription
		if old != nil {
			next.Detected, next.Attributes = old.Detected, old.Attributes
		}
		return next
	}
	next.Detected = f.Health == driver.Healthy || f.Health == driver.Unhealthy
	next.Healthy = f.Health == driver.Healthy
	for k, v := range f.Attributes {
		if v != "" {
			next.Attributes[k] = v
		}
	}
	return next
}

// attributesOf returns the node attributes: driver.<name> is set when it is detected.
func attributesOf(name string, info *api.DriverInfo) map[string]string {
	out := maps.Clone(info.Attributes)
	if out == nil {
		out = map[string]string{}
	}
	out["driver."+name] = ""
	if info.Detected {
		out["driver."+name] = "1"
	}
	return out
}

func sameHealth(a, b *api.DriverInfo) bool {
	return a.Detected == b.Detected && a.Healthy == b.Healthy && a.HealthDescription == b.HealthDescription &&
		maps.Equal(a.Attributes, b.Attributes)
}

func clone(i *api.DriverInfo) *api.DriverInfo {
	c := *i
	c.Attributes = maps.Clone(i.Attributes)
	return &c
}

func (d *Drivers) arrived() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting--; d.waiting == 0 {
		close(d.first)
	}
}

// WaitFirst waits until every driver has reported once, or failed to; its callbacks have returned then.
func (d *Drivers) WaitFirst(ctx context.Context) error {
	select {
	case <-d.first:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the first driver fingerprints: %w", ctx.Err())
	}
}

// Infos returns what is known of each driver that has reported.
func (d *Drivers) Infos() map[string]*api.DriverInfo {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]*api.DriverInfo{}
	for name, w := range d.known {
		if w.info != nil {
			out[name] = clone(w.info)
		}
	}
	return out
}
