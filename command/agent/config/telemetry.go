package config

import (
	"fmt"
	"reflect"
	"time"

	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/internal/tracing"
	"github.com/open-nomad/open-nomad/jobspec/tree"
)

// Telemetry is the telemetry block: what is measured, and where it goes.
type Telemetry struct {
	// MemoryInterval is the time that GET /v1/metrics sums up, MemoryRetention for how long such sums are kept.
	MemoryInterval  time.Duration `hcl:"in_memory_collection_interval"`
	MemoryRetention time.Duration `hcl:"in_memory_retention_period"`
	// StatsiteAddress, StatsdAddress and DatadogAddress are host:port; empty is off.
	StatsiteAddress string   `hcl:"statsite_address"`
	StatsdAddress   string   `hcl:"statsd_address"`
	DatadogAddress  string   `hcl:"datadog_address"`
	DatadogTags     []string `hcl:"datadog_tags"`
	// Prometheus enables GET /v1/metrics?format=prometheus.
	Prometheus bool `hcl:"prometheus_metrics"`
	// DisableHostname leaves the host out of metrics. UseNodeName names it by the name of the agent.
	DisableHostname bool `hcl:"disable_hostname"`
	UseNodeName     bool `hcl:"use_node_name"`
	// Interval is the time between two measurements of hosts and tasks, and between two sendings of gauges.
	Interval time.Duration `hcl:"collection_interval"`
	// PublishAllocs and PublishNode enable the metrics of tasks and of the node.
	PublishAllocs bool `hcl:"publish_allocation_metrics"`
	PublishNode   bool `hcl:"publish_node_metrics"`
	// AllocMetadata adds the meta keys in AllowedMetadata of jobs, groups and tasks to the labels of their metrics.
	AllocMetadata   bool     `hcl:"include_alloc_metadata_in_metrics"`
	AllowedMetadata []string `hcl:"allowed_metadata_keys_in_metrics"`
	// PrefixFilter lists prefixes of metrics that pass (+) or are dropped (-); FilterDefault is for the others.
	PrefixFilter  []string `hcl:"prefix_filter"`
	FilterDefault bool     `hcl:"filter_default"`
	// DisableDispatchedJobSummary leaves instances of parameterised jobs out of the counts of jobs.
	DisableDispatchedJobSummary bool `hcl:"disable_dispatched_job_summary_metrics"`
	DisableRPCRateLabels        bool `hcl:"disable_rpc_rate_metrics_labels"`
	DisableAllocHooks           bool `hcl:"disable_allocation_hook_metrics"`

	// OTLP is where traces go.
	OTLP OTLP `hcl:"otlp"`

	CirconusToken           string `hcl:"circonus_api_token"`
	CirconusApp             string `hcl:"circonus_api_app"`
	CirconusURL             string `hcl:"circonus_api_url"`
	CirconusInterval        string `hcl:"circonus_submission_interval"`
	CirconusSubmissionURL   string `hcl:"circonus_submission_url"`
	CirconusCheckID         string `hcl:"circonus_check_id"`
	CirconusForceActivation string `hcl:"circonus_check_force_metric_activation"`
	CirconusInstanceID      string `hcl:"circonus_check_instance_id"`
	CirconusSearchTag       string `hcl:"circonus_check_search_tag"`
	CirconusCheckTags       string `hcl:"circonus_check_tags"`
	CirconusDisplayName     string `hcl:"circonus_check_display_name"`
	CirconusBrokerID        string `hcl:"circonus_broker_id"`
	CirconusBrokerSelectTag string `hcl:"circonus_broker_select_tag"`
}

// OTLP is the block otlp: the collector of traces. Without an endpoint there are no traces.
type OTLP struct {
	// Endpoint is an http:// or https:// URL.
	Endpoint string            `hcl:"endpoint"`
	Headers  map[string]string `hcl:"headers"`
	// SampleRatio is the share of traces that are recorded, 0 to 1. All agents should have the same.
	SampleRatio float64 `hcl:"sample_ratio"`
}

// shown has no headers, which may hold a token.
func (o OTLP) shown() map[string]any {
	headers := map[string]string{}
	for name := range o.Headers {
		headers[name] = "<redacted>"
	}
	return map[string]any{"Endpoint": o.Endpoint, "Headers": headers, "SampleRatio": o.SampleRatio}
}

// intervalMin is the least time between two measurements.
const intervalMin = 100 * time.Millisecond

func defaultTelemetry() Telemetry {
	return Telemetry{MemoryInterval: 10 * time.Second, MemoryRetention: time.Minute, Interval: time.Second, FilterDefault: true, OTLP: OTLP{SampleRatio: 1}}
}

func atLeast(least time.Duration) func(reflect.Value, tree.Value) error {
	return checked(func(v reflect.Value) error {
		if d := time.Duration(v.Int()); d < least {
			return fmt.Errorf("%s is below %s", d, least)
		}
		return nil
	})
}

// telemetryValues checks the values of the block where they are written.
var telemetryValues = map[string]func(reflect.Value, tree.Value) error{
	"telemetry.in_memory_collection_interval": atLeast(intervalMin),
	"telemetry.in_memory_retention_period":    atLeast(intervalMin),
	"telemetry.collection_interval":           atLeast(intervalMin),
	"telemetry.prefix_filter": checked(func(v reflect.Value) error {
		list, _ := v.Interface().([]string)
		_, _, err := metrics.Prefixes(list)
		return err
	}),
	"telemetry.otlp.endpoint": checked(func(v reflect.Value) error { return tracing.Check(v.String()) }),
	"telemetry.otlp.sample_ratio": checked(func(v reflect.Value) error {
		if r := v.Float(); !(r >= 0 && r <= 1) {
			return fmt.Errorf("%v is not between 0 and 1", r)
		}
		return nil
	}),
	"telemetry.circonus_submission_interval": checked(func(v reflect.Value) error {
		_, err := time.ParseDuration(v.String())
		return err
	}),
}

// shown has no token.
func (t Telemetry) shown() map[string]any {
	token := ""
	if t.CirconusToken != "" {
		token = "<redacted>"
	}
	return map[string]any{
		"InMemoryCollectionInterval": t.MemoryInterval.String(), "InMemoryRetentionPeriod": t.MemoryRetention.String(),
		"OTLP": t.OTLP.shown(), "StatsiteAddr": t.StatsiteAddress, "StatsdAddr": t.StatsdAddress, "DataDogAddr": t.DatadogAddress, "DataDogTags": t.DatadogTags,
		"PrometheusMetrics": t.Prometheus, "DisableHostname": t.DisableHostname, "UseNodeName": t.UseNodeName, "CollectionInterval": t.Interval.String(),
		"PublishAllocationMetrics": t.PublishAllocs, "PublishNodeMetrics": t.PublishNode, "IncludeAllocMetadataInMetrics": t.AllocMetadata,
		"AllowedMetadataKeysInMetrics": t.AllowedMetadata, "PrefixFilter": t.PrefixFilter, "FilterDefault": t.FilterDefault,
		"DisableDispatchedJobSummaryMetrics": t.DisableDispatchedJobSummary, "DisableRPCRateMetricsLabels": t.DisableRPCRateLabels,
		"DisableAllocationHookMetrics": t.DisableAllocHooks, "CirconusAPIToken": token, "CirconusAPIApp": t.CirconusApp, "CirconusAPIURL": t.CirconusURL,
		"CirconusSubmissionInterval": t.CirconusInterval, "CirconusCheckSubmissionURL": t.CirconusSubmissionURL, "CirconusCheckID": t.CirconusCheckID,
		"CirconusCheckForceMetricActivation": t.CirconusForceActivation, "CirconusCheckInstanceID": t.CirconusInstanceID,
		"CirconusCheckSearchTag": t.CirconusSearchTag, "CirconusCheckTags": t.CirconusCheckTags, "CirconusCheckDisplayName": t.CirconusDisplayName,
		"CirconusBrokerID": t.CirconusBrokerID, "CirconusBrokerSelectTag": t.CirconusBrokerSelectTag,
	}
}

// Metrics is the block as package metrics takes it. host and name are those of the host and of the agent.
func (t Telemetry) Metrics(host, name string) metrics.Config {
	if t.UseNodeName {
		host = name
	}
	return metrics.Config{
		Host: host, NoHost: t.DisableHostname, Interval: t.Interval, MemoryInterval: t.MemoryInterval, MemoryRetention: t.MemoryRetention,
		Prometheus: t.Prometheus, Statsd: t.StatsdAddress, Statsite: t.StatsiteAddress, Datadog: t.DatadogAddress, DatadogTags: t.DatadogTags,
		Filter: t.PrefixFilter, Drop: !t.FilterDefault,
		Circonus: metrics.Circonus{
			Token: t.CirconusToken, App: t.CirconusApp, URL: t.CirconusURL, Interval: t.CirconusInterval, SubmissionURL: t.CirconusSubmissionURL,
			CheckID: t.CirconusCheckID, ForceActivation: t.CirconusForceActivation, InstanceID: t.CirconusInstanceID, SearchTag: t.CirconusSearchTag,
			CheckTags: t.CirconusCheckTags, DisplayName: t.CirconusDisplayName, BrokerID: t.CirconusBrokerID, BrokerSelectTag: t.CirconusBrokerSelectTag,
		},
	}
}
