// Package tracing records spans with OpenTelemetry and sends them to a collector with OTLP over HTTP.
//
// One trace leads from the request that submits a job to the start of its tasks. Nothing about it is stored: the trace id of a
// request becomes the id of the evaluation that it creates, and allocations name their evaluation. So servers and nodes derive
// the trace id, the id of the span of the evaluation (its second half) and that of the request (its first half), and all of
// them take the same decision to sample. An evaluation without a request has a trace of its own, whose id is the evaluation's.
//
// Within a process spans follow the context, and between processes the header traceparent of the W3C. Only requests and
// evaluations begin traces; everything else records a span if its context belongs to one. The traceparent of an HTTP request
// becomes a link, because a client may send the same one again and ids of evaluations are unique.
//
// Without a collector all functions return at once and allocate nothing. The queue of spans is bounded: while the collector does
// not respond, new spans are dropped and no caller waits.
//
// The exporter is a variable of the process, as that of OpenTelemetry is: spans begin in many packages, which have nothing else
// to configure.
package tracing
