package tracing

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/open-nomad/open-nomad/api/fault"
)

const (
	// queueMax is how many spans wait for the collector; more are dropped. batchMax are sent at once, after batchWait at the latest.
	queueMax  = 8192
	batchMax  = 512
	batchWait = time.Second
	// sendMax bounds one request to the collector, and closeMax what is sent when the agent ends.
	sendMax  = 5 * time.Second
	closeMax = 3 * time.Second
	// complainEvery bounds how often failures are logged.
	complainEvery = time.Minute
	// tracesPath is where collectors receive traces.
	tracesPath = "/v1/traces"
)

// Config names the collector.
type Config struct {
	// Endpoint is the http:// or https:// URL of the collector; empty is off. Without a path it is that of OTLP, /v1/traces.
	Endpoint string
	// Headers are sent with each request, such as one with a token.
	Headers map[string]string
	// Ratio is the share of traces that are recorded, 0 to 1.
	Ratio float64
	// Agent and Region describe this agent, Version is that of the program.
	Agent, Region, Version string
	Log                    hclog.Logger
}

// Check reports what is wrong with an endpoint.
func Check(endpoint string) error {
	if endpoint == "" {
		return nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return fault.New(fault.Invalid, "%q is not the URL of a collector such as http://127.0.0.1:4318", endpoint)
	}
	return nil
}

// Open begins to send spans of this process. Close ends it.
func Open(c Config) (closer func(), err error) {
	if c.Endpoint == "" {
		return func() {}, nil
	}
	if err := Check(c.Endpoint); err != nil {
		return nil, err
	}
	endpoint := c.Endpoint
	if u, _ := url.Parse(endpoint); strings.Trim(u.Path, "/") == "" {
		endpoint = u.Scheme + "://" + u.Host + tracesPath
	}
	exporter, err := otlptrace.New(context.Background(), &client{endpoint: endpoint, headers: c.Headers, http: &http.Client{Timeout: sendMax}})
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	var last atomic.Int64
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if at, now := last.Load(), time.Now().UnixNano(); now-at > int64(complainEvery) && last.CompareAndSwap(at, now) {
			c.Log.Warn("traces are not sent", "error", err)
		}
	}))
	ratio.Store(math.Float64bits(c.Ratio))
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(exporter, sdk.WithMaxQueueSize(queueMax), sdk.WithMaxExportBatchSize(batchMax), sdk.WithBatchTimeout(batchWait), sdk.WithExportTimeout(sendMax)),
		sdk.WithIDGenerator(ids{}), sdk.WithSampler(sampler{}),
		sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "nomad"), attribute.String("service.version", c.Version),
			attribute.String("service.instance.id", c.Agent), attribute.String("nomad.region", c.Region))),
	)
	t := provider.Tracer("github.com/open-nomad/open-nomad")
	current.Store(&t)
	return func() {
		current.CompareAndSwap(&t, nil)
		ctx, cancel := context.WithTimeout(context.Background(), closeMax)
		defer cancel()
		_ = provider.Shutdown(ctx) // what is left is lost; failures were logged
	}, nil
}
