package metrics

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	gometrics "github.com/hashicorp/go-metrics"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// kind is what a series does with a value.
type kind byte

const (
	counter kind = iota // adds it
	sample              // adds it to a distribution
	level               // keeps the last one
)

// identity identifies a series. It is compared on each record, so no text is made of it.
type identity struct {
	kind   kind
	key    [5]string
	labels [3]Label
}

func identityOf(k kind, key []string, labels []Label) identity {
	id := identity{kind: k}
	if n := copy(id.key[:], key); n < len(key) {
		id.key[n-1] = strings.Join(key[n-1:], "\x00")
	}
	if n := copy(id.labels[:], labels); n < len(labels) {
		for _, l := range labels[n:] {
			id.labels[n-1].Name += "\x00" + l.Name
			id.labels[n-1].Value += "\x00" + l.Value
		}
	}
	return id
}

// short identifies a series that a [Recorder] records, with one label at most: most records are of such.
type short struct {
	kind  kind
	name  string
	label Label
}

// shorten returns the short identity of an identity, if it has one.
func (id *identity) shorten() (of short, found bool) {
	if id.key[0] != service || id.key[2] != "" || id.labels[1] != (Label{}) {
		return short{}, false
	}
	return short{id.kind, id.key[1], id.labels[0]}, true
}

// series is a metric with its labels.
type series struct {
	kind   kind
	name   string
	labels []Label
	// desc and pairs are for Prometheus, summary is the distribution of samples; all are nil when that is off.
	desc    *prometheus.Desc
	pairs   []*dto.LabelPair
	summary prometheus.Summary

	mu sync.Mutex
	// now is the sum of the interval at, last that of the interval before.
	at, before int64
	now, last  gometrics.AggregateSample
	// total is the sum of a counter since the start, or the last value.
	total float64
	used  time.Time
}

// recorded is the sink that keeps what is recorded: the last two intervals for GET /v1/metrics, and all for Prometheus. The
// sinks of go-metrics make texts of the name and the labels of each record; these were most of the cost of metrics.
type recorded struct {
	interval time.Duration
	// keep is how long a series is kept that is not recorded any more.
	keep time.Duration
	// prom is nil when Prometheus is off.
	prom *hostLabel

	mu     sync.RWMutex
	series map[identity]*series
	// own are those of series that have a short identity.
	own map[short]*series
	// begun is the first interval; 0 is none.
	begun int64
}

func (r *recorded) find(id *identity) *series {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.series[*id]
}

func (r *recorded) findOwn(of *short) *series {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.own[*of]
}

// record adds a value to a series, which it makes if need be.
func (r *recorded) record(k kind, key []string, v float64, labels []Label) {
	id := identityOf(k, key, labels)
	s := r.find(&id)
	if s == nil {
		s = r.add(id, key, labels)
	}
	s.record(v, r.interval)
}

func (r *recorded) add(id identity, key []string, labels []Label) *series {
	s := &series{kind: id.kind, name: strings.ReplaceAll(strings.Join(key, "."), " ", "_"), labels: slices.Clone(labels)}
	if r.prom != nil {
		name := promName(strings.Join(r.prom.key(key), "_"))
		var names []string
		s.pairs, names = r.prom.pairs(labels)
		s.desc = prometheus.NewDesc(name, name, names, nil)
		if id.kind == sample {
			fixed := prometheus.Labels{}
			for _, p := range s.pairs {
				fixed[p.GetName()] = p.GetValue()
			}
			s.summary = prometheus.NewSummary(prometheus.SummaryOpts{
				Name: name, Help: name, MaxAge: 10 * time.Second, AgeBuckets: 2, ConstLabels: fixed, Objectives: map[float64]float64{0.5: 0.05, 0.9: 0.01, 0.99: 0.001},
			})
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.series[id]; old != nil {
		return old
	}
	r.begun = cmp.Or(r.begun, r.number(time.Now()))
	r.series[id] = s
	if of, found := id.shorten(); found {
		r.own[of] = s
	}
	return s
}

// number numbers the intervals.
func (r *recorded) number(t time.Time) int64 { return t.UnixNano() / int64(r.interval) }

func (s *series) record(v float64, interval time.Duration) {
	s.mu.Lock()
	s.used = time.Now()
	if n := s.used.UnixNano() / int64(interval); n != s.at {
		s.last, s.before = s.now, s.at
		s.now, s.at = gometrics.AggregateSample{Min: math.Inf(1), Max: math.Inf(-1)}, n
	}
	a := &s.now
	a.Count++
	a.Sum += v
	a.SumSq += v * v
	a.Min, a.Max = min(a.Min, v), max(a.Max, v)
	if s.total += v; s.kind == level {
		s.total = v
	}
	s.mu.Unlock()
	if s.summary != nil {
		s.summary.Observe(v)
	}
}

// each calls fn with all series.
func (r *recorded) each(fn func(s *series)) {
	r.mu.RLock()
	all := make([]*series, 0, len(r.series))
	for _, s := range r.series {
		all = append(all, s)
	}
	r.mu.RUnlock()
	for _, s := range all {
		fn(s)
	}
}

// summarize adds the last complete interval to a summary; in the first interval it is that one.
func (r *recorded) summarize(out *Summary) {
	now := r.number(time.Now())
	r.mu.RLock()
	shown := max(now-1, cmp.Or(r.begun, now))
	r.mu.RUnlock()
	out.Timestamp = time.Unix(0, shown*int64(r.interval)).Round(time.Second).UTC().String()
	r.each(func(s *series) {
		s.mu.Lock()
		a := s.now
		switch shown {
		case s.at:
		case s.before:
			a = s.last
		default:
			s.mu.Unlock()
			return
		}
		total := s.total
		s.mu.Unlock()
		labels := make(map[string]string, len(s.labels))
		for _, l := range s.labels {
			labels[l.Name] = l.Value
		}
		a.Rate = a.Sum / r.interval.Seconds()
		text := s.name
		for _, l := range s.labels {
			text += ";" + l.Name + "=" + l.Value
		}
		value := gometrics.SampledValue{Name: s.name, Hash: text, AggregateSample: &a, Mean: a.Mean(), Stddev: a.Stddev(), DisplayLabels: labels}
		switch s.kind {
		case counter:
			out.Counters = append(out.Counters, value)
		case sample:
			out.Samples = append(out.Samples, value)
		case level:
			out.Gauges = append(out.Gauges, Gauge{s.name, total, labels})
		}
	})
	for _, list := range [][]gometrics.SampledValue{out.Counters, out.Samples} {
		slices.SortFunc(list, func(a, b gometrics.SampledValue) int { return cmp.Compare(a.Hash, b.Hash) })
	}
}

// Describe implements [prometheus.Collector]. It describes nothing: what is recorded is not known before.
func (*recorded) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (r *recorded) Collect(out chan<- prometheus.Metric) {
	r.each(func(s *series) {
		if s.summary != nil {
			out <- s.summary
			return
		}
		s.mu.Lock()
		m := &number{s.desc, s.kind, s.total, s.pairs}
		s.mu.Unlock()
		out <- m
	})
}

// expire removes the series that were not recorded for long.
func (r *recorded) expire(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, s := range r.series {
		s.mu.Lock()
		old := !s.used.IsZero() && now.Sub(s.used) > r.keep
		s.mu.Unlock()
		if old {
			delete(r.series, id)
			if of, found := id.shorten(); found {
				delete(r.own, of)
			}
		}
	}
}

// SetGauge implements [gometrics.MetricSink].
func (r *recorded) SetGauge(key []string, v float32) { r.record(level, key, float64(v), nil) }

// SetGaugeWithLabels implements [gometrics.MetricSink].
func (r *recorded) SetGaugeWithLabels(key []string, v float32, labels []Label) {
	r.record(level, key, float64(v), labels)
}

// SetPrecisionGauge implements [gometrics.PrecisionGaugeMetricSink].
func (r *recorded) SetPrecisionGauge(key []string, v float64) { r.record(level, key, v, nil) }

// SetPrecisionGaugeWithLabels implements [gometrics.PrecisionGaugeMetricSink].
func (r *recorded) SetPrecisionGaugeWithLabels(key []string, v float64, labels []Label) {
	r.record(level, key, v, labels)
}

// EmitKey implements [gometrics.MetricSink]. No library here emits any.
func (*recorded) EmitKey([]string, float32) {}

// IncrCounter implements [gometrics.MetricSink].
func (r *recorded) IncrCounter(key []string, v float32) { r.record(counter, key, float64(v), nil) }

// IncrCounterWithLabels implements [gometrics.MetricSink].
func (r *recorded) IncrCounterWithLabels(key []string, v float32, labels []Label) {
	r.record(counter, key, float64(v), labels)
}

// AddSample implements [gometrics.MetricSink].
func (r *recorded) AddSample(key []string, v float32) { r.record(sample, key, float64(v), nil) }

// AddSampleWithLabels implements [gometrics.MetricSink].
func (r *recorded) AddSampleWithLabels(key []string, v float32, labels []Label) {
	r.record(sample, key, float64(v), labels)
}
