package plan

import (
	"context"
	"sync"
	"time"
)

// Rejections configures what happens to a node that the applier rejects plans on again and again though
// the scheduler finds it fit. Zero fields take their defaults.
type Rejections struct {
	// Enabled makes such a node ineligible; off by default.
	Enabled bool
	// Threshold is how many rejections within Window are too many; defaults 100 and 5 minutes.
	Threshold int
	Window    time.Duration
}

// rejected remembers when plans were rejected on a node.
type rejected struct {
	mu    sync.Mutex
	times map[string][]time.Time
}

// rejectedMax bounds the remembered nodes.
const rejectedMax = 50_000

// note counts a rejection and reports whether it is one too many; then the count restarts.
func (r *rejected) note(node string, now time.Time, c Rejections) bool {
	limit, window := c.Threshold, c.Window
	if limit <= 0 {
		limit = 100
	}
	if window <= 0 {
		window = 5 * time.Minute
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.times == nil || len(r.times) > rejectedMax {
		r.times = map[string][]time.Time{}
	}
	list := append(r.times[node], now)
	for len(list) > 0 && now.Sub(list[0]) > window {
		list = list[1:]
	}
	r.times[node] = list
	if len(list) < limit {
		return false
	}
	delete(r.times, node)
	return true
}

// watchRejections takes nodes out of scheduling that too many plans were rejected on.
func (a *Applier) watchRejections(ctx context.Context, f *flight) {
	if !a.Rejections.Enabled || a.Ineligible == nil {
		return
	}
	for _, node := range f.refused {
		if !a.rejected.note(node, time.Now(), a.Rejections) {
			continue
		}
		if err := a.Ineligible(ctx, node); err != nil {
			a.Log.Warn("node that plans are rejected on was not taken out", "node", node, "error", err)
			continue
		}
		a.Log.Warn("node was made ineligible: too many plans were rejected on it", "node", node)
	}
}
