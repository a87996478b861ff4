package rest

import (
	"context"
	"io"
	"net/http"
	"net/url"
)

// RawRequest is a request to any endpoint. Path are its parts after /v1/, not escaped.
type RawRequest struct {
	Method string
	Path   []string
	Params url.Values
	Header http.Header
	// Body is sent as it is; nil for none.
	Body io.Reader
}

// Prepare makes the HTTP request with the address, region, namespace and token of the client.
func (c *Client) Prepare(ctx context.Context, r RawRequest) (*http.Request, error) {
	var body any
	if r.Body != nil {
		body = r.Body
	}
	out, err := c.request(ctx, r.Method, r.Path, r.Params, body)
	if err != nil {
		return nil, err
	}
	for name, values := range r.Header {
		out.Header[name] = values
	}
	if host := r.Header.Get("Host"); host != "" {
		out.Host = host
	}
	return out, nil
}

// Raw sends a request to any endpoint and copies the answer.
func (c *Client) Raw(ctx context.Context, method string, path []string, params url.Values, out io.Writer) error {
	r, err := c.Prepare(ctx, RawRequest{Method: method, Path: path, Params: params})
	if err != nil {
		return err
	}
	return c.Send(r, out, nil)
}

// Send sends a prepared request and copies the answer; answered, when set, sees the head of it first.
func (c *Client) Send(r *http.Request, out io.Writer, answered func(*http.Response)) error {
	resp, err := c.send(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if answered != nil {
		answered(resp)
	}
	_, err = io.Copy(out, resp.Body)
	return err
}
