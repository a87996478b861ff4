package tracing

import (
	"context"
	"sync/atomic"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// current is the tracer of the process; nil when tracing is off.
var current atomic.Pointer[trace.Tracer]

// On reports whether spans are recorded.
func On() bool { return current.Load() != nil }

// Span is an operation of a trace. The zero value records nothing.
type Span struct{ span trace.Span }

// Start begins a span if ctx belongs to a trace. The name has two parts, so that callers need not join them.
func Start(ctx context.Context, kind, name string) (context.Context, Span) {
	t := current.Load()
	if t == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, Span{}
	}
	ctx, s := (*t).Start(ctx, kind+name)
	return ctx, Span{s}
}

// Request begins the trace of a request with its method and path. parent is the header traceparent of the client; it becomes a link.
func Request(ctx context.Context, method, path, parent string) (context.Context, Span) {
	t := current.Load()
	if t == nil {
		return ctx, Span{}
	}
	id := trace.TraceID(uuid.New())
	var opts []trace.SpanStartOption
	if from := extract(parent); from.IsValid() {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: from}))
	}
	opts = append(opts, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindServer))
	ctx, s := (*t).Start(with(ctx, id, requestSpan(id)), method+" "+path, opts...)
	return ctx, Span{s}
}

// Evaluation begins the span of an evaluation. requested is set when a request created it; earlier is the evaluation that led to
// it, or empty.
func Evaluation(ctx context.Context, evalID string, requested bool, earlier string) (context.Context, Span) {
	t := current.Load()
	id, ok := traceOf(evalID)
	if t == nil || !ok {
		return ctx, Span{}
	}
	opts := []trace.SpanStartOption{trace.WithAttributes(attribute.String("eval_id", evalID))}
	if from, ok := traceOf(earlier); ok {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: remote(from, evalSpan(from))}))
	}
	ctx = with(ctx, id, evalSpan(id))
	if requested {
		ctx = trace.ContextWithRemoteSpanContext(ctx, remote(id, requestSpan(id)))
	} else {
		opts = append(opts, trace.WithNewRoot())
	}
	ctx, s := (*t).Start(ctx, "evaluation", opts...)
	return ctx, Span{s}
}

// OfEvaluation returns a context in which spans follow that of the evaluation.
func OfEvaluation(ctx context.Context, evalID string) context.Context {
	id, ok := traceOf(evalID)
	if current.Load() == nil || !ok || !sampled(id) {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, remote(id, evalSpan(id)))
}

// Apart returns a context that belongs to no trace.
func Apart(ctx context.Context) context.Context {
	if current.Load() == nil {
		return ctx
	}
	return trace.ContextWithSpanContext(ctx, trace.SpanContext{})
}

// EvaluationID returns the id for an evaluation that the request of ctx creates; empty without a trace.
func EvaluationID(ctx context.Context) string {
	if current.Load() == nil {
		return ""
	}
	if id := trace.SpanContextFromContext(ctx).TraceID(); id.IsValid() {
		return uuid.UUID(id).String()
	}
	return ""
}

// ID returns the trace id of ctx for a log line; empty without a trace.
func ID(ctx context.Context) string {
	if current.Load() == nil {
		return ""
	}
	if s := trace.SpanContextFromContext(ctx); s.IsSampled() {
		return s.TraceID().String()
	}
	return ""
}

// Set adds an attribute.
func (s Span) Set(key, value string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String(key, value))
	}
}

// End ends the span, with its error or nil.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, short(err.Error()))
	}
	s.span.End()
}

// textMax bounds the text of an error in a span, in bytes.
const textMax = 400

func short(text string) string {
	if len(text) > textMax {
		return text[:textMax]
	}
	return text
}

// Parent returns the header traceparent for a call to another process; empty without a trace.
func Parent(ctx context.Context) string {
	if current.Load() == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	m := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, m)
	return m["traceparent"]
}

// WithParent returns a context of the trace that a caller named.
func WithParent(ctx context.Context, parent string) context.Context {
	if current.Load() == nil || parent == "" {
		return ctx
	}
	if from := extract(parent); from.IsValid() {
		return trace.ContextWithRemoteSpanContext(ctx, from)
	}
	return ctx
}

func extract(parent string) trace.SpanContext {
	if parent == "" {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": parent})
	return trace.SpanContextFromContext(ctx)
}
