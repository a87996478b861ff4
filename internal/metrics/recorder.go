package metrics

import (
	"context"
	"slices"
	"sync"
	"time"

	gometrics "github.com/hashicorp/go-metrics"
	"github.com/prometheus/client_golang/prometheus"
)

// Label is a dimension of a metric.
type Label = gometrics.Label

// Emit takes the value that a gauge has now, and keeps the labels for the time of one reading.
type Emit func(name string, value float64, labels ...Label)

// Source reports gauges as they are now. It may be called by several goroutines at once. It must not wait for anything but
// locks that are held for moments.
type Source func(emit Emit)

// Recorder records counters and samples, and collects gauges from its sources. A nil Recorder records nothing.
type Recorder struct {
	conf   Config
	live   *gometrics.Metrics
	memory *gometrics.InmemSink
	// pushed are the sinks that must be sent gauges at intervals; nil when there are none.
	pushed *gometrics.Metrics
	// registry is what Prometheus reads; nil when it is off.
	registry *prometheus.Registry
	prom     *hostLabel
	calls    *prometheus.HistogramVec
	// sink is all of the sinks together.
	sink gometrics.FanoutSink

	mu      sync.Mutex
	sources []Source
}

// Count adds to a counter.
func (r *Recorder) Count(name string, n float64, labels ...Label) {
	if r != nil {
		r.live.IncrCounterWithLabels([]string{name}, float32(n), labels)
	}
}

// Sample adds a value to the distribution of a metric.
func (r *Recorder) Sample(name string, value float64, labels ...Label) {
	if r != nil {
		r.live.AddSampleWithLabels([]string{name}, float32(value), labels)
	}
}

// Since adds the time since the start, in milliseconds, to the distribution of a metric.
func (r *Recorder) Since(name string, start time.Time, labels ...Label) {
	if r != nil {
		r.live.MeasureSinceWithLabels([]string{name}, start, labels)
	}
}

// Call records a call of an operation of a plugin: Prometheus gets a histogram in seconds, the other sinks a sample in
// milliseconds. code is the outcome, such as "OK" or "Unavailable".
func (r *Recorder) Call(plugin, operation, code string, took time.Duration) {
	if r == nil {
		return
	}
	if r.calls != nil {
		r.calls.WithLabelValues(plugin, operation, code).Observe(took.Seconds())
	}
	r.Sample("csi.call", float64(took.Microseconds())/1000, Label{Name: "plugin", Value: plugin}, Label{Name: "rpc", Value: operation}, Label{Name: "code", Value: code})
}

// Read adds a source of gauges.
func (r *Recorder) Read(s Source) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sources = append(r.sources, s)
}

// collect calls all sources.
func (r *Recorder) collect(emit Emit) {
	r.mu.Lock()
	sources := slices.Clone(r.sources)
	r.mu.Unlock()
	for _, s := range sources {
		s(emit)
	}
}

// Run records the figures of the runtime and sends gauges to the sinks that need them sent, at each interval, until ctx
// ends.
func (r *Recorder) Run(ctx context.Context) {
	if r == nil {
		return
	}
	if r.prom != nil {
		r.prom.sink.RunBackgroundCleanup(ctx)
	}
	tick := time.NewTicker(r.conf.Interval)
	defer tick.Stop()
	for {
		r.live.EmitRuntimeStats()
		if r.pushed != nil {
			r.collect(func(name string, value float64, labels ...Label) {
				r.pushed.SetPrecisionGaugeWithLabels([]string{name}, value, labels)
			})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
