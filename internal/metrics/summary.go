package metrics

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	gometrics "github.com/hashicorp/go-metrics"
)

// Gauge is a value as it is now, by its name with the prefix.
type Gauge struct {
	Name   string
	Value  float64
	Labels map[string]string
}

// Summary is the response of GET /v1/metrics: counters and samples of the last complete interval, and gauges as they are
// now, or were last when a library records them.
type Summary struct {
	Timestamp string
	Gauges    []Gauge
	Points    []gometrics.PointValue
	Counters  []gometrics.SampledValue
	Samples   []gometrics.SampledValue
}

// Summary sums up. It works on a nil Recorder.
func (r *Recorder) Summary() (*Summary, error) {
	out := &Summary{Gauges: []Gauge{}, Points: []gometrics.PointValue{}, Counters: []gometrics.SampledValue{}, Samples: []gometrics.SampledValue{}}
	if r == nil {
		return out, nil
	}
	shown, err := r.memory.DisplayMetrics(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	in, ok := shown.(gometrics.MetricsSummary)
	if !ok {
		return nil, fmt.Errorf("metrics: unexpected summary %T", shown)
	}
	out.Timestamp = in.Timestamp
	out.Points, out.Counters, out.Samples = append(out.Points, in.Points...), append(out.Counters, in.Counters...), append(out.Samples, in.Samples...)
	for _, g := range in.Gauges {
		out.Gauges = append(out.Gauges, Gauge{g.Name, float64(g.Value), g.DisplayLabels})
	}
	now, err := r.gauges()
	if err != nil {
		return nil, err
	}
	for _, g := range now {
		labels := make(map[string]string, len(g.labels))
		for _, l := range g.labels {
			labels[l.Name] = l.Value
		}
		out.Gauges = append(out.Gauges, Gauge{strings.Join(g.key, "."), g.value, labels})
	}
	slices.SortStableFunc(out.Gauges, func(a, b Gauge) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}
