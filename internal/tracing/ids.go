package tracing

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sync/atomic"

	"github.com/google/uuid"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// traceOf returns the trace id of an evaluation.
func traceOf(evalID string) (trace.TraceID, bool) {
	id, err := uuid.Parse(evalID)
	t := trace.TraceID(id)
	return t, err == nil && requestSpan(t).IsValid() && evalSpan(t).IsValid()
}

// requestSpan is the id of the span of a request, evalSpan that of an evaluation.
func requestSpan(t trace.TraceID) trace.SpanID { return trace.SpanID(t[:8]) }
func evalSpan(t trace.TraceID) trace.SpanID    { return trace.SpanID(t[8:]) }

func remote(t trace.TraceID, s trace.SpanID) trace.SpanContext {
	c := trace.SpanContextConfig{TraceID: t, SpanID: s, Remote: true}
	if sampled(t) {
		c.TraceFlags = trace.FlagsSampled
	}
	return trace.NewSpanContext(c)
}

// chosen are the ids of the next span of a context. They are used once: the context is passed to the spans below.
type chosen struct {
	trace trace.TraceID
	span  trace.SpanID
	used  atomic.Bool
}

type chosenKey struct{}

func with(ctx context.Context, t trace.TraceID, s trace.SpanID) context.Context {
	return context.WithValue(ctx, chosenKey{}, &chosen{trace: t, span: s})
}

func take(ctx context.Context) *chosen {
	if c, ok := ctx.Value(chosenKey{}).(*chosen); ok && c.used.CompareAndSwap(false, true) {
		return c
	}
	return nil
}

// ids makes the ids of spans. It implements [sdk.IDGenerator].
type ids struct{}

// NewIDs returns the ids of a span that begins a trace.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if c := take(ctx); c != nil {
		return c.trace, c.span
	}
	return trace.TraceID(uuid.New()), randomSpan()
}

// NewSpanID returns the id of a span in a trace.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if c := take(ctx); c != nil {
		return c.span
	}
	return randomSpan()
}

func randomSpan() (s trace.SpanID) {
	binary.BigEndian.PutUint64(s[:], rand.Uint64()|1) // zero is invalid
	return s
}

// ratio is the share of traces that are recorded, as the bits of a float64.
var ratio atomic.Uint64

// sampled reports whether a trace is recorded. All agents with one ratio decide alike. The bytes are those of a UUID that are
// random.
func sampled(t trace.TraceID) bool {
	part := binary.BigEndian.Uint64(t[8:]) & (1<<56 - 1)
	return float64(part) < math.Float64frombits(ratio.Load())*(1<<56)
}

// sampler implements [sdk.Sampler].
type sampler struct{}

// ShouldSample decides by the trace id.
func (sampler) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	out := sdk.SamplingResult{Decision: sdk.Drop, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
	if sampled(p.TraceID) {
		out.Decision = sdk.RecordAndSample
	}
	return out
}

// Description implements [sdk.Sampler].
func (sampler) Description() string { return "share of trace ids" }
