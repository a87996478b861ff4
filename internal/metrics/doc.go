// Package metrics records measurements and hands them to the configured sinks: memory for GET /v1/metrics, Prometheus, statsd,
// statsite, Datadog and Circonus.
//
// There are two kinds of metrics. Counters and samples are recorded where they happen, with a [Recorder] that each part of
// the program gets in its configuration; a nil Recorder records nothing. Gauges of what is known anyway, such as the counts
// of the state, are not recorded: a [Source] reports them at each request for the metrics, so that they cost nothing
// otherwise, and are never old.
//
// Names have dots and no prefix, such as "nomad.eval.ack"; sinks put "nomad." before them. The file
// docs/monitoring/metrics.tsv lists all names; tests in cmd/nomad compare it with the code.
package metrics
