package plan

import (
	"context"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/metrics"
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

// Depth is the number of plans that wait.
func (a *Applier) Depth() int { return a.queue.depth() }

// scoresMax is how many nodes [Applier.Gauges] reports.
const scoresMax = 1000

// Gauges reports how often plans were rejected on nodes within the window of the rejections.
func (a *Applier) Gauges(emit metrics.Emit) {
	a.rejected.mu.Lock()
	scores := make(map[string]int, min(len(a.rejected.times), scoresMax))
	for node, times := range a.rejected.times {
		if len(scores) == scoresMax {
			break
		}
		scores[node] = len(times)
	}
	a.rejected.mu.Unlock()
	for node, n := range scores {
		emit("nomad.plan.rejection_tracker.node_score", float64(n), metrics.Label{Name: "node_id", Value: node})
	}
}

// watchRejections takes nodes out of scheduling that too many plans were rejected on.
func (a *Applier) watchRejections(ctx context.Context, f *flight) {
	for _, node := range f.refused {
		a.Metrics.Count("nomad.plan.node_rejected", 1, metrics.Label{Name: "node_id", Value: node})
	}
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
