package tracing_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	pb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/open-nomad/open-nomad/internal/tracing"
)

// collecting receives spans.
type collecting struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*pb.Span
	token string
}

func newCollector(t *testing.T) *collecting {
	t.Helper()
	c := &collecting{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var req collector.ExportTraceServiceRequest
		if r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &req) != nil {
			t.Errorf("request to %s", r.URL.Path)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.token = r.Header.Get("X-Token")
		for _, rs := range req.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				c.spans = append(c.spans, ss.GetSpans()...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func open(t *testing.T, c tracing.Config) func() {
	t.Helper()
	c.Log = hclog.NewNullLogger()
	closer, err := tracing.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return closer
}

func TestOneTraceFromTheRequestToTheNode(t *testing.T) {
	c := newCollector(t)
	end := open(t, tracing.Config{Endpoint: c.URL, Ratio: 1, Headers: map[string]string{"X-Token": "abc"}})
	ctx, request := tracing.Request(t.Context(), "PUT", "/v1/jobs", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	parent := tracing.Parent(ctx)
	// The leader, in another process.
	there := tracing.WithParent(context.Background(), parent)
	there, call := tracing.Start(there, "rpc ", "Job.Register")
	evalID := tracing.EvaluationID(there)
	call.End(errors.New("refused"))
	request.End(nil)
	// The worker and the node know the evaluation only.
	at, eval := tracing.Evaluation(context.Background(), evalID, true, uuid.NewString())
	_, schedule := tracing.Start(at, "schedule", "")
	schedule.End(nil)
	eval.End(nil)
	_, step := tracing.Start(tracing.OfEvaluation(context.Background(), evalID), "step ", "volumes")
	step.Set("alloc_id", "a1")
	step.End(nil)
	_, none := tracing.Start(context.Background(), "apart", "")
	none.End(nil)
	end()

	want := strings.ReplaceAll(evalID, "-", "")
	if tracing.Parent(ctx) != "" || !strings.Contains(parent, want) {
		t.Errorf("the parent %s is not of %s, or tracing continues", parent, want)
	}
	byName := map[string]*pb.Span{}
	for _, s := range c.spans {
		byName[s.GetName()] = s
		if got := strings.ReplaceAll(uuid.UUID(s.GetTraceId()).String(), "-", ""); got != want {
			t.Errorf("%s has trace %s, want %s", s.GetName(), got, want)
		}
	}
	for name, parent := range map[string]string{
		"PUT /v1/jobs": "", "rpc Job.Register": "PUT /v1/jobs", "evaluation": "PUT /v1/jobs", "schedule": "evaluation", "step volumes": "evaluation",
	} {
		if s := byName[name]; s == nil || string(s.GetParentSpanId()) != string(byName[parent].GetSpanId()) {
			t.Errorf("%s is %v, its parent is not %q", name, s, parent)
		}
	}
	if len(byName) != 5 || c.token != "abc" || len(byName["PUT /v1/jobs"].GetLinks()) != 1 || byName["rpc Job.Register"].GetStatus().GetMessage() != "refused" {
		t.Errorf("spans %v, token %q", byName, c.token)
	}
}

func TestAllAgentsSampleTheSameTraces(t *testing.T) {
	c := newCollector(t)
	defer open(t, tracing.Config{Endpoint: c.URL, Ratio: 0.25})()
	n := 0
	for range 4000 {
		id := uuid.NewString()
		ctx, span := tracing.Evaluation(context.Background(), id, false, "")
		span.End(nil)
		first := tracing.ID(ctx) != ""
		if other := tracing.ID(tracing.OfEvaluation(context.Background(), id)) != ""; other != first {
			t.Fatalf("evaluation %s is recorded in part", id)
		}
		if first {
			n++
		}
	}
	if n < 800 || n > 1200 {
		t.Errorf("%d of 4000 traces are recorded, want a quarter", n)
	}
}

func TestADeadCollectorHoldsNothing(t *testing.T) {
	hang := make(chan struct{})
	dead := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer dead.Close()
	defer close(hang)
	end := open(t, tracing.Config{Endpoint: dead.URL, Ratio: 1})
	began := time.Now()
	for range 50_000 {
		_, span := tracing.Request(t.Context(), "PUT", "/v1/jobs", "")
		span.End(nil)
	}
	end()
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("50,000 spans and the end took %s", took)
	}
}

func TestNothingIsAllocatedWithoutACollector(t *testing.T) {
	ctx := t.Context()
	got := testing.AllocsPerRun(1000, func() {
		ctx, span := tracing.Request(ctx, "PUT", "/v1/jobs", "")
		ctx = tracing.WithParent(ctx, tracing.Parent(ctx))
		ctx, below := tracing.Start(ctx, "rpc ", "Job.Register")
		ctx, eval := tracing.Evaluation(ctx, "0f5a1c0e-7a52-4e9c-9d5c-6f6d0d4a2a10", true, "")
		if tracing.EvaluationID(ctx) != "" || tracing.ID(tracing.OfEvaluation(ctx, "0f5a1c0e-7a52-4e9c-9d5c-6f6d0d4a2a10")) != "" {
			t.Error("there is a trace")
		}
		eval.End(nil)
		below.Set("a", "b")
		below.End(nil)
		span.End(nil)
	})
	if got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func TestWrongEndpoints(t *testing.T) {
	for _, bad := range []string{"collector:4318", "ftp://h", "http://", "http://user:secret@h", "http://h?x=1"} {
		if tracing.Check(bad) == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
