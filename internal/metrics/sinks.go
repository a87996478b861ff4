package metrics

import (
	"slices"

	gometrics "github.com/hashicorp/go-metrics"
)

// service is the first part of each name.
const service = "nomad"

// hostLabel gives metrics to Prometheus with the host as a label: in the names of gauges, where go-metrics puts it, it would
// make another metric for each host.
type hostLabel struct {
	host string
	on   bool
}

func (h *hostLabel) key(key []string) []string {
	if h.on && len(key) > 2 && key[1] == h.host {
		return slices.Concat(key[:1], key[2:])
	}
	return key
}

func (h *hostLabel) labels(labels []Label) []Label {
	if !h.on {
		return labels
	}
	return append(slices.Clip(labels), Label{Name: "host", Value: h.host})
}

// naming receives the key that go-metrics makes of a name. It is for one goroutine.
type naming struct {
	gometrics.BlackholeSink
	key []string
}

// SetPrecisionGauge implements [gometrics.PrecisionGaugeMetricSink].
func (n *naming) SetPrecisionGauge(key []string, _ float64) { n.key = key }

// SetPrecisionGaugeWithLabels implements [gometrics.PrecisionGaugeMetricSink].
func (n *naming) SetPrecisionGaugeWithLabels(key []string, _ float64, _ []Label) { n.key = key }

// gaugeName is the key of all gauges of a name, with its prefix; nil when a filter drops them.
type gaugeName struct{ key []string }

type gaugeValue struct {
	*gaugeName
	value  float64
	labels []Label
}

// gauges calls the sources. Names are prefixed and filtered once for all gauges that have them.
func (r *Recorder) gauges() ([]gaugeValue, error) {
	sink := &naming{}
	m, err := r.measure(sink)
	if err != nil {
		return nil, err
	}
	names := map[string]*gaugeName{}
	var values []gaugeValue
	r.collect(func(name string, value float64, labels ...Label) {
		n := names[name]
		if n == nil {
			sink.key = nil
			m.SetPrecisionGauge([]string{name}, value)
			n = &gaugeName{sink.key}
			names[name] = n
		}
		if n.key != nil {
			values = append(values, gaugeValue{n, value, labels})
		}
	})
	return values, nil
}
