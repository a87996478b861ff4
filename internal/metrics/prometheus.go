package metrics

import (
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Prometheus serves the metrics in the format of Prometheus; nil when that is off.
func (r *Recorder) Prometheus() http.Handler {
	if r == nil || r.registry == nil {
		return nil
	}
	return promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, DisableCompression: true})
}

// reader gives Prometheus what sources report.
type reader struct{ r *Recorder }

// Describe implements [prometheus.Collector]. It describes nothing: what sources report is not known before.
func (reader) Describe(chan<- *prometheus.Desc) {}

// family is a metric with the names of its labels.
type family struct{ name, labels string }

// Collect implements [prometheus.Collector].
func (s reader) Collect(out chan<- prometheus.Metric) {
	values, err := s.r.gauges()
	if err != nil {
		out <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		return
	}
	families := map[family]*prometheus.Desc{}
	for _, g := range values {
		name := promName(strings.Join(s.r.prom.key(g.key), "_"))
		labels := s.r.prom.labels(g.labels)
		names, texts := make([]string, len(labels)), make([]string, len(labels))
		for i, l := range labels {
			names[i], texts[i] = promName(l.Name), strings.ToValidUTF8(l.Value, "?")
		}
		f := family{name, strings.Join(names, ",")}
		desc := families[f]
		if desc == nil {
			desc = prometheus.NewDesc(name, name, names, nil)
			families[f] = desc
		}
		m, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, g.value, texts...)
		if err != nil {
			m = prometheus.NewInvalidMetric(desc, err)
		}
		out <- m
	}
}

var promNames = strings.NewReplacer(" ", "_", ".", "_", "=", "_", "-", "_", "/", "_")

// promName is the name of a metric or label as Prometheus takes it.
func promName(name string) string { return promNames.Replace(name) }
