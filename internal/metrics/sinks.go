package metrics

import (
	"slices"

	gometrics "github.com/hashicorp/go-metrics"
	goprometheus "github.com/hashicorp/go-metrics/prometheus"
)

// service is the first part of each name.
const service = "nomad"

// hostLabel removes the host from the names of gauges, where go-metrics puts it: it would make another metric for each host.
// The registerer of the sink adds it as a label, which costs at a reading and not at each record.
type hostLabel struct {
	sink *goprometheus.PrometheusSink
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

// SetGauge implements [gometrics.MetricSink].
func (h *hostLabel) SetGauge(key []string, v float32) { h.SetGaugeWithLabels(key, v, nil) }

// SetGaugeWithLabels implements [gometrics.MetricSink].
func (h *hostLabel) SetGaugeWithLabels(key []string, v float32, labels []Label) {
	h.sink.SetGaugeWithLabels(h.key(key), v, labels)
}

// SetPrecisionGauge implements [gometrics.PrecisionGaugeMetricSink].
func (h *hostLabel) SetPrecisionGauge(key []string, v float64) {
	h.SetPrecisionGaugeWithLabels(key, v, nil)
}

// SetPrecisionGaugeWithLabels implements [gometrics.PrecisionGaugeMetricSink].
func (h *hostLabel) SetPrecisionGaugeWithLabels(key []string, v float64, labels []Label) {
	h.sink.SetPrecisionGaugeWithLabels(h.key(key), v, labels)
}

// EmitKey implements [gometrics.MetricSink]. Prometheus has no such metrics.
func (*hostLabel) EmitKey([]string, float32) {}

// IncrCounter implements [gometrics.MetricSink].
func (h *hostLabel) IncrCounter(key []string, v float32) { h.IncrCounterWithLabels(key, v, nil) }

// IncrCounterWithLabels implements [gometrics.MetricSink].
func (h *hostLabel) IncrCounterWithLabels(key []string, v float32, labels []Label) {
	h.sink.IncrCounterWithLabels(key, v, labels)
}

// AddSample implements [gometrics.MetricSink].
func (h *hostLabel) AddSample(key []string, v float32) { h.AddSampleWithLabels(key, v, nil) }

// AddSampleWithLabels implements [gometrics.MetricSink].
func (h *hostLabel) AddSampleWithLabels(key []string, v float32, labels []Label) {
	h.sink.AddSampleWithLabels(key, v, labels)
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
