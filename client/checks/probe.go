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
	code   int
	output string
}

func failed(err error) outcome {
	text := err.Error()
	if len(text) > outputMax {
		text = strings.ToValidUTF8(text[:outputMax], "")
	}
	return outcome{output: text}
}

// probe returns the function that probes the service once. It returns when its context ends.
func (c *check) probe() func(context.Context) outcome {
	if c.problem != "" {
		return func(context.Context) outcome { return outcome{output: c.problem} }
	}
	switch c.spec.Type {
	case "http":
		return c.probeHTTP()
	case "tcp":
		return c.probeTCP
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

// probeHTTP makes requests without a proxy and without redirects. The body of the response is not read: it may be that of
// another program on the node.
func (c *check) probeHTTP() func(context.Context) outcome {
	client := &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: 64 << 10,
			TLSClientConfig: &tls.Config{
				MinVersion: tls.VersionTLS12, ServerName: c.spec.TLSServerName,
				InsecureSkipVerify: c.spec.TLSSkipVerify, //nolint:gosec // tls_skip_verify of the job
			},
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
			return outcome{output: fmt.Sprintf("no response within %v", c.spec.Timeout)}
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
