package httpapi_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/nomad/httpapi"
	"github.com/open-nomad/open-nomad/nomad/page"
)

// cluster answers wire calls from a table and remembers what was asked.
type cluster struct {
	mu      sync.Mutex
	asked   map[string][]any
	once    map[string]bool
	answers map[string]func(req any) (any, error)
}

func newCluster() *cluster {
	return &cluster{asked: map[string][]any{}, once: map[string]bool{}, answers: map[string]func(any) (any, error){}}
}

// on sets the answer of a method.
func on[Req, Resp any](c *cluster, m wire.Method[Req, Resp], fn func(*Req) (*Resp, error)) {
	c.answers[m.Name] = func(req any) (any, error) { return fn(req.(*Req)) }
}

// Invoke implements wire.Caller; methods without an answer give an empty one.
func (c *cluster) Invoke(ctx context.Context, method string, req, resp any) error {
	c.mu.Lock()
	c.asked[method] = append(c.asked[method], req)
	c.once[method] = wire.IsOnce(ctx)
	c.mu.Unlock()
	fn, ok := c.answers[method]
	if !ok {
		return nil
	}
	out, err := fn(req)
	if err != nil {
		return err
	}
	reflect.ValueOf(resp).Elem().Set(reflect.ValueOf(out).Elem())
	return nil
}

// paged is the page of a list that a request asks for, as servers answer it.
func paged[T any](q api.QueryOptions, rows []*T, token func(*T) string) ([]*T, api.QueryMeta, error) {
	q.Prefix = ""
	kept, next, err := page.Of(context.Background(), &q, page.Stored(page.Sorted(slices.Clone(rows), token), token))
	return kept, api.QueryMeta{Index: 7, KnownLeader: true, NextToken: next}, err
}

func (c *cluster) methods() []string { return slices.Sorted(maps.Keys(c.asked)) }

// last is the latest request of a method.
func last[Req, Resp any](t *testing.T, c *cluster, m wire.Method[Req, Resp]) *Req {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.asked[m.Name]
	if len(list) == 0 {
		t.Fatalf("%s was not called; called: %v", m.Name, c.methods())
	}
	return list[len(list)-1].(*Req)
}

// measured returns metrics with two gauges.
func measured(c metrics.Config) *metrics.Recorder {
	r, err := metrics.New(c)
	if err != nil {
		panic(err)
	}
	r.Read(func(emit metrics.Emit) {
		emit("nomad.b", 2)
		emit("nomad.a", 0.5)
	})
	return r
}

func handler(c *cluster) http.Handler {
	return httpapi.New(httpapi.Config{
		Servers: c,
		Node: func(id string) (wire.Caller, error) {
			if id == "gone" {
				return nil, fault.New(fault.Unavailable, "node %s is not connected", id)
			}
			return c, nil
		},
		LocalNodeID: func() string { return "n1" },
		Self: func() *api.AgentSelf {
			return &api.AgentSelf{Stats: map[string]map[string]string{"nomad": {"leader": "true"}}}
		},
		Metrics: measured(metrics.Config{NoHost: true}),
		Name:    "s1", Region: "global", Datacenter: "dc1",
	})
}

// send makes one request.
func send(h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func expect(t *testing.T, w *httptest.ResponseRecorder, code int, text string) {
	t.Helper()
	if w.Code != code {
		t.Errorf("code %d, want %d; body: %s", w.Code, code, w.Body)
	}
	if !strings.Contains(w.Body.String(), text) {
		t.Errorf("body %q does not have %q", w.Body, text)
	}
}
