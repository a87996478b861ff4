package metrics

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
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
type family struct {
	*gaugeName
	labels string
}

// gauge is a gauge with its labels as Prometheus takes them, sorted by name. Gauges of one object share them.
type gauge struct {
	desc   *prometheus.Desc
	value  float64
	labels []*dto.LabelPair
}

// Desc implements [prometheus.Metric].
func (g *gauge) Desc() *prometheus.Desc { return g.desc }

// Write implements [prometheus.Metric].
func (g *gauge) Write(out *dto.Metric) error {
	out.Label, out.Gauge = g.labels, &dto.Gauge{Value: &g.value}
	return nil
}

// Collect implements [prometheus.Collector].
func (s reader) Collect(out chan<- prometheus.Metric) {
	values, err := s.r.gauges()
	if err != nil {
		out <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		return
	}
	families := map[family]*prometheus.Desc{}
	var pairs []*dto.LabelPair
	var names []string
	var joined string
	for i, g := range values {
		if i == 0 || !sameSlice(values[i-1].labels, g.labels) {
			pairs, names = s.r.prom.pairs(g.labels)
			joined = strings.Join(names, ",")
		}
		f := family{g.gaugeName, joined}
		desc := families[f]
		if desc == nil {
			name := promName(strings.Join(s.r.prom.key(g.key), "_"))
			desc = prometheus.NewDesc(name, name, names, nil)
			families[f] = desc
		}
		out <- &gauge{desc, g.value, pairs}
	}
}

// sameSlice reports whether two slices are one.
func sameSlice(a, b []Label) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// pairs returns labels as Prometheus takes them, and their names.
func (h *hostLabel) pairs(labels []Label) (pairs []*dto.LabelPair, names []string) {
	for _, l := range h.labels(labels) {
		name, text := promName(l.Name), strings.ToValidUTF8(l.Value, "?")
		pairs = append(pairs, &dto.LabelPair{Name: &name, Value: &text})
	}
	slices.SortFunc(pairs, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
	for _, p := range pairs {
		names = append(names, p.GetName())
	}
	return pairs, names
}

var promNames = strings.NewReplacer(" ", "_", ".", "_", "=", "_", "-", "_", "/", "_")

// promName is the name of a metric or label as Prometheus takes it.
func promName(name string) string { return promNames.Replace(name) }
