package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// Client calls the HTTP API.
type Client struct {
	config Config
	base   *url.URL
	http   *http.Client
}

// Query are the options of a read.
type Query struct {
	// Namespace replaces the client's; "*" asks for all.
	Namespace string
	// Index makes the read wait until the answer is newer, for at most Wait.
	Index  uint64
	Wait   time.Duration
	Prefix string
	Filter string
	// PerPage and NextToken ask for one page.
	PerPage   int
	NextToken string
	Reverse   bool
	Stale     bool
	// Params are further parameters of the endpoint.
	Params url.Values
}

// Meta is the metadata of a read's response.
type Meta struct {
	Index       uint64
	LastContact time.Duration
	KnownLeader bool
	NextToken   string
}

const tokenHeader = "X-Nomad-Token"

// maxErrorBytes bounds how much of a failed answer is read. A conflict holds a variable of 64 KiB as JSON.
const maxErrorBytes = 512 << 10

// socketPathMax is how long the path of a unix socket may be.
const socketPathMax = 107

// unixDialer dials a socket. A path that is too long is dialled through a descriptor of its directory: the sockets of tasks
// have long paths.
func unixDialer(d *net.Dialer, path string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		if len(path) <= socketPathMax {
			return d.DialContext(ctx, "unix", path)
		}
		dir, err := os.Open(filepath.Dir(path))
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		return d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
	}
}

// Address is where the client sends its requests.
func (c *Client) Address() string { return c.config.Address }

// Token is the secret with which the client authenticates; empty without one.
func (c *Client) Token() string { return c.config.Token }

// Namespace is the namespace that the client asks for, "default" unless it was set.
func (c *Client) Namespace() string {
	if c.config.Namespace == "" {
		return api.DefaultNamespace
	}
	return c.config.Namespace
}

// In returns a client that differs in its namespace only.
func (c *Client) In(namespace string) *Client {
	d := *c
	d.config.Namespace = namespace
	return &d
}

// InRegion returns a client that differs in its region only.
func (c *Client) InRegion(region string) *Client {
	d := *c
	d.config.Region = region
	return &d
}

func (q Query) values() url.Values {
	v := url.Values{}
	for k, list := range q.Params {
		v[k] = list
	}
	set := func(k, s string) {
		if s != "" {
			v.Set(k, s)
		}
	}
	set("namespace", q.Namespace)
	set("prefix", q.Prefix)
	set("filter", q.Filter)
	set("next_token", q.NextToken)
	if q.Index > 0 {
		v.Set("index", strconv.FormatUint(q.Index, 10))
	}
	if q.Wait > 0 {
		v.Set("wait", q.Wait.String())
	}
	if q.PerPage > 0 {
		v.Set("per_page", strconv.Itoa(q.PerPage))
	}
	if q.Reverse {
		v.Set("reverse", "true")
	}
	if q.Stale {
		v.Set("stale", "true")
	}
	return v
}

// request makes a request; the parts of the path are escaped here. A body that can be read is sent as it
// is, any other as JSON.
func (c *Client) request(ctx context.Context, method string, path []string, params url.Values, body any) (*http.Request, error) {
	var reader io.Reader
	stream, streamed := body.(io.Reader)
	if streamed {
		reader = stream
	} else if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fault.New(fault.Invalid, "encode request: %w", err)
		}
		reader = bytes.NewReader(data)
	}
	if params == nil {
		params = url.Values{}
	}
	if c.config.Region != "" && !params.Has("region") {
		params.Set("region", c.config.Region)
	}
	if c.config.Namespace != "" && !params.Has("namespace") {
		params.Set("namespace", c.config.Namespace)
	}
	target := *c.base
	escaped := make([]string, len(path))
	for i, p := range path {
		escaped[i] = url.PathEscape(p)
	}
	prefix := strings.TrimSuffix(target.Path, "/") + "/v1/"
	target.Path, target.RawPath = prefix+strings.Join(path, "/"), prefix+strings.Join(escaped, "/")
	target.RawQuery = params.Encode()
	r, err := http.NewRequestWithContext(ctx, method, target.String(), reader)
	if err != nil {
		return nil, fault.New(fault.Invalid, "request %s: %w", target.Path, err)
	}
	if body != nil && !streamed {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.config.Token != "" {
		r.Header.Set(tokenHeader, c.config.Token)
	}
	if c.config.User != "" {
		r.SetBasicAuth(c.config.User, c.config.Password)
	}
	return r, nil
}

// send does a request and turns a failed answer into an error. The caller closes the body.
func (c *Client) send(r *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(r)
	if err != nil {
		if ctx := r.Context().Err(); ctx != nil {
			return nil, ctx
		}
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // the address is named once
		}
		return nil, fault.New(fault.Unavailable, "reach agent at %s: %w", c.Address(), c.explain(err))
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
	text := strings.TrimSpace(string(body))
	if c.base.Scheme == "http" && strings.Contains(text, "HTTP request to an HTTPS server") {
		text += " Use an https:// address (-address, NOMAD_ADDR)."
	}
	_, path, _ := strings.Cut(r.URL.Path, "/v1/")
	return nil, &Error{
		Code: resp.StatusCode, Text: text, Meta: metaOf(resp.Header),
		Method: r.Method, Path: path, Namespace: r.URL.Query().Get("namespace"),
	}
}

func metaOf(h http.Header) Meta {
	index, _ := strconv.ParseUint(h.Get("X-Nomad-Index"), 10, 64)
	contact, _ := strconv.ParseInt(h.Get("X-Nomad-LastContact"), 10, 64)
	known, _ := strconv.ParseBool(h.Get("X-Nomad-KnownLeader"))
	return Meta{
		Index: index, LastContact: time.Duration(contact) * time.Millisecond,
		KnownLeader: known, NextToken: h.Get("X-Nomad-NextToken"),
	}
}

// do sends a request and decodes the answer into out, unless out is nil.
func (c *Client) do(ctx context.Context, method string, path []string, params url.Values, body, out any) (Meta, error) {
	r, err := c.request(ctx, method, path, params, body)
	if err != nil {
		return Meta{}, err
	}
	return c.finish(r, out)
}

func (c *Client) finish(r *http.Request, out any) (Meta, error) {
	resp, err := c.send(r)
	if err != nil {
		return Meta{}, err
	}
	defer resp.Body.Close()
	meta := metaOf(resp.Header)
	if out == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		return meta, nil
	}
	if err := decode(resp.Body, out); err != nil {
		return meta, fault.New(fault.Internal, "decode answer of %s: %w", r.URL.Path, err)
	}
	return meta, nil
}

// get is a read.
func get[T any](ctx context.Context, c *Client, q Query, path ...string) (T, Meta, error) {
	var out T
	meta, err := c.do(ctx, http.MethodGet, path, q.values(), nil, &out)
	return out, meta, err
}

// put is a write with an answer.
func put[T any](ctx context.Context, c *Client, params url.Values, body any, path ...string) (*T, error) {
	out := new(T)
	if _, err := c.do(ctx, http.MethodPut, path, params, body, out); err != nil {
		return nil, err
	}
	return out, nil
}
