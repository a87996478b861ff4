package metrics

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	gometrics "github.com/hashicorp/go-metrics"
	"github.com/hashicorp/go-metrics/circonus"
	"github.com/hashicorp/go-metrics/datadog"
	goprometheus "github.com/hashicorp/go-metrics/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Config says where metrics go.
type Config struct {
	// Host is what metrics name as their host. NoHost leaves it out.
	Host   string
	NoHost bool
	// Interval is the time between two readings of what is measured at intervals; 0 means 1 s.
	Interval time.Duration
	// MemoryInterval is the time that GET /v1/metrics sums up, MemoryRetention for how long such sums are kept; 0 means 10 s
	// and 1 min.
	MemoryInterval, MemoryRetention time.Duration
	// Prometheus enables the format of Prometheus.
	Prometheus bool
	// Statsd, Statsite and Datadog are addresses, host:port; empty is off.
	Statsd, Statsite, Datadog string
	// DatadogTags are sent with each metric.
	DatadogTags []string
	Circonus    Circonus
	// Filter lists prefixes of metrics with their sign: "+nomad.client" lets them pass, "-nomad.raft" drops them. The longest
	// one counts; Drop is what happens to the others.
	Filter []string
	Drop   bool
	// Log takes the troubles of sinks; nil drops them.
	Log gometrics.SinkLogger
}

// Circonus is the access to a Circonus service; without a token and a submission URL it is off.
type Circonus struct {
	Token, App, URL                                               string
	Interval, SubmissionURL, CheckID, ForceActivation, InstanceID string
	SearchTag, CheckTags, DisplayName, BrokerID, BrokerSelectTag  string
}

// expiry is how long Prometheus still gets a counter or a sample that is not recorded any more.
const expiry = 5 * time.Minute

// callBuckets are the limits of the histogram of calls of plugins, in seconds: calls take milliseconds to minutes.
var callBuckets = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300}

// Prefixes splits the entries of a filter by their signs.
func Prefixes(filter []string) (allow, block []string, err error) {
	var errs []error
	for _, f := range filter {
		name, ok := strings.CutPrefix(f, "+")
		if ok && name != "" {
			allow = append(allow, name)
			continue
		}
		if name, ok = strings.CutPrefix(f, "-"); ok && name != "" {
			block = append(block, name)
			continue
		}
		errs = append(errs, fault.New(fault.Invalid, "prefix_filter %q must begin with + (passes) or - (is dropped) and name a prefix", f))
	}
	return allow, block, errors.Join(errs...)
}

// New opens the sinks.
func New(c Config) (*Recorder, error) {
	c.Interval, c.MemoryInterval = cmp.Or(c.Interval, time.Second), cmp.Or(c.MemoryInterval, 10*time.Second)
	c.MemoryRetention = max(cmp.Or(c.MemoryRetention, time.Minute), c.MemoryInterval)
	r := &Recorder{conf: c, memory: gometrics.NewInmemSink(c.MemoryInterval, c.MemoryRetention)}
	pushed, err := c.pushed()
	if err != nil {
		return nil, err
	}
	if len(pushed) > 0 {
		if r.pushed, err = r.measure(pushed); err != nil {
			return nil, err
		}
	}
	r.sink = append(gometrics.FanoutSink{r.memory}, pushed...)
	if c.Prometheus {
		if err := r.openPrometheus(); err != nil {
			return nil, err
		}
		r.sink = append(r.sink, r.prom)
	}
	r.live, err = r.measure(r.sink)
	return r, err
}

// measure returns what prefixes and filters metrics on their way to the sink.
func (r *Recorder) measure(sink gometrics.MetricSink) (*gometrics.Metrics, error) {
	c := r.conf
	allow, block, err := Prefixes(c.Filter)
	if err != nil {
		return nil, err
	}
	m, err := gometrics.New(&gometrics.Config{
		ServiceName: service, HostName: c.Host, EnableHostname: !c.NoHost && c.Host != "", TimerGranularity: time.Millisecond,
		AllowedPrefixes: allow, BlockedPrefixes: block, FilterDefault: !c.Drop,
	}, sink)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return m, nil
}

// Global makes libraries of this process that record with the global instance of go-metrics, such as raft, serf and memberlist, record here.
func (r *Recorder) Global() error {
	_, err := gometrics.NewGlobal(&r.live.Config, r.sink)
	return err
}

// pushed are the sinks that send metrics elsewhere. None waits for its peer.
func (c Config) pushed() (all gometrics.FanoutSink, err error) {
	if c.Statsd != "" {
		s, err := gometrics.NewStatsdSinkWithLogger(c.Statsd, c.Log)
		if err != nil {
			return nil, fmt.Errorf("telemetry.statsd_address %s: %w", c.Statsd, err)
		}
		all = append(all, s)
	}
	if c.Statsite != "" {
		s, err := gometrics.NewStatsiteSinkWithLogger(c.Statsite, c.Log)
		if err != nil {
			return nil, fmt.Errorf("telemetry.statsite_address %s: %w", c.Statsite, err)
		}
		all = append(all, s)
	}
	if c.Datadog != "" {
		s, err := datadog.NewDogStatsdSink(c.Datadog, c.Host)
		if err != nil {
			return nil, fmt.Errorf("telemetry.datadog_address %s: %w", c.Datadog, err)
		}
		s.SetTags(c.DatadogTags)
		all = append(all, s)
	}
	if c.Circonus.Token != "" || c.Circonus.SubmissionURL != "" {
		s, err := c.Circonus.open()
		if err != nil {
			return nil, fmt.Errorf("telemetry.circonus_*: %w", err)
		}
		all = append(all, s)
	}
	return all, nil
}

func (c Circonus) open() (*circonus.CirconusSink, error) {
	conf := &circonus.Config{Interval: c.Interval}
	m := &conf.CheckManager
	m.API.TokenKey, m.API.TokenApp, m.API.URL = c.Token, cmp.Or(c.App, service), c.URL
	m.Check.SubmissionURL, m.Check.ID, m.Check.ForceMetricActivation = c.SubmissionURL, c.CheckID, c.ForceActivation
	m.Check.InstanceID, m.Check.SearchTag, m.Check.Tags, m.Check.DisplayName = c.InstanceID, c.SearchTag, c.CheckTags, c.DisplayName
	m.Broker.ID, m.Broker.SelectTag = c.BrokerID, c.BrokerSelectTag
	s, err := circonus.NewCirconusSink(conf)
	if err != nil {
		return nil, err
	}
	s.Start()
	return s, nil
}

func (r *Recorder) openPrometheus() error {
	r.registry = prometheus.NewRegistry()
	r.prom = &hostLabel{host: r.conf.Host, on: !r.conf.NoHost && r.conf.Host != ""}
	var labelled prometheus.Registerer = r.registry
	if r.prom.on {
		labelled = prometheus.WrapRegistererWith(prometheus.Labels{"host": r.conf.Host}, r.registry)
	}
	var err error
	if r.prom.sink, err = goprometheus.NewPrometheusSinkFrom(goprometheus.PrometheusOpts{Expiration: expiry, Registerer: labelled, Name: "nomad_recorded"}); err != nil {
		return fmt.Errorf("prometheus: %w", err)
	}
	r.calls = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "nomad_csi_call_duration_seconds", Help: "Duration of calls of CSI plugins.", Buckets: callBuckets,
	}, []string{"plugin", "rpc", "code"})
	// The gauges of the reader are many, and have the label already.
	return errors.Join(labelled.Register(r.calls), r.registry.Register(reader{r}),
		r.registry.Register(collectors.NewGoCollector()), r.registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
}
