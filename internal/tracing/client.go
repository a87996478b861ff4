package tracing

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	pb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// responseMax bounds what is read of a response in bytes.
const responseMax = 64 << 10

// client sends spans with OTLP over HTTP. It implements otlptrace.Client. The package otlptracehttp is not used: it registers gzip
// for all gRPC of the process, so that each call between agents would offer compression and accept compressed requests.
type client struct {
	endpoint string
	headers  map[string]string
	http     *http.Client
}

// Start does nothing: each request stands alone.
func (*client) Start(context.Context) error { return nil }

// Stop closes idle connections.
func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces sends a batch once. What the collector does not take is lost.
func (c *client) UploadTraces(ctx context.Context, spans []*pb.ResourceSpans) error {
	body, err := proto.Marshal(&collector.ExportTraceServiceRequest{ResourceSpans: spans})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, value := range c.headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, responseMax))
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("the collector responded with %s", resp.Status)
	}
	return nil
}
