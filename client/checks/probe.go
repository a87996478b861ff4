package checks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// outputMax bounds the output of a probe in bytes.
const outputMax = 1024

// outcome is the result of one probe. A code of 0 means that there was no HTTP response.
type outcome struct {
	passed bool
	// warned is set for a script that ended with a warning; passed is false then.
	warned bool
	code   int
	output string
}

func failed(err error) outcome { return outcome{output: cut(err.Error())} }

// cut returns the beginning of an output as text that can be shown.
func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), outputMax)], "")
}

// probe returns the function that probes the service once. It returns when its context ends.
func (c *check) probe(tasks Tasks) func(context.Context) outcome {
	if c.problem != "" {
		return func(context.Context) outcome { return outcome{output: c.problem} }
	}
	switch c.spec.Type {
	case "http":
		return c.probeHTTP()
	case "tcp":
		return c.probeTCP
	case "grpc":
		return c.probeGRPC
	case typeScript:
		return func(ctx context.Context) outcome { return c.runScript(ctx, tasks) }
	}
	return func(context.Context) outcome {
		return outcome{output: fmt.Sprintf("checks of type %.40q do not exist", c.spec.Type)}
	}
}

func (c *check) probeTCP(ctx context.Context) outcome {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", c.address)
	if err != nil {
		return failed(err)
	}
	_ = conn.Close()
	return outcome{passed: true, output: "nomad: tcp ok"}
}

// late is the outcome of a request without a response.
func (c *check) late() outcome {
	return outcome{output: fmt.Sprintf("no response within %v", c.spec.Timeout)}
}

func (c *check) tls() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: c.spec.TLSServerName,
		InsecureSkipVerify: c.spec.TLSSkipVerify, //nolint:gosec // tls_skip_verify of the job
	}
}

// probeHTTP makes requests without a proxy and without redirects. The body of the response is not read: it may be that of
// another program on the node.
func (c *check) probeHTTP() func(context.Context) outcome {
	client := &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: 64 << 10,
			TLSClientConfig:        c.tls(),
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	scheme, method := c.spec.Protocol, c.spec.Method
	if scheme == "" {
		scheme = "http"
	}
	if method == "" {
		method = http.MethodGet
	}
	target := scheme + "://" + c.address + "/" + strings.TrimPrefix(c.spec.Path, "/")
	return func(ctx context.Context) outcome {
		req, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(c.spec.Body))
		if err != nil {
			return failed(err)
		}
		for name, values := range c.spec.Header {
			for _, v := range values {
				req.Header.Add(name, v)
			}
		}
		if host := req.Header.Get("Host"); host != "" {
			req.Host = host
		}
		resp, err := client.Do(req)
		if errors.Is(err, context.DeadlineExceeded) {
			return c.late()
		}
		if err != nil {
			return failed(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode >= http.StatusBadRequest {
			return outcome{code: resp.StatusCode, output: "the status of the response is " + resp.Status}
		}
		return outcome{passed: true, code: resp.StatusCode, output: "nomad: http ok"}
	}
}
