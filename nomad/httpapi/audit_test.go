package httpapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/httpapi"
	"github.com/open-nomad/open-nomad/nomad/httpapi/audit"
)

// output keeps lines, until it fails.
type output struct {
	mu     sync.Mutex
	text   bytes.Buffer
	fails  error
	synced int
}

func (o *output) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fails != nil {
		return 0, &fs.PathError{Op: "write", Path: "/the/path", Err: o.fails}
	}
	return o.text.Write(line)
}

func (o *output) Sync() error { o.synced++; return nil }

// audited is one event.
type audited struct {
	CreatedAt time.Time `json:"created_at"`
	EventType string    `json:"event_type"`
	Payload   struct {
		ID, Stage, Type string
		Version         int
		Auth            struct {
			AccessorID string `json:"accessor_id"`
			Name       string
			Policies   []string
			Roles      []struct{ ID, Name string }
			Global     bool
			CreateTime *time.Time `json:"create_time"`
		}
		Request struct {
			ID, Operation, Endpoint, Region, Prefix string
			Namespace                               struct{ ID string }
			RequestMeta                             struct {
				RemoteAddress string `json:"remote_address"`
				UserAgent     string `json:"user_agent"`
			} `json:"request_meta"`
			NodeMeta struct{ IP string } `json:"node_meta"`
		}
		Response *struct {
			StatusCode int `json:"status_code"`
			Error      string
		}
	}
}

func (o *output) events(t *testing.T) []audited {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []audited
	for line := range strings.Lines(o.text.String()) {
		var e audited
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, e)
	}
	o.text.Reset()
	return all
}

// auditing is a cluster that knows one token, behind an API that is recorded.
func auditing(sinks []*audit.Sink, filters ...audit.Filter) (*cluster, http.Handler) {
	c := newCluster()
	created := time.Unix(1_000_000, 0).UTC()
	on(c, wire.ACLWhoAmI, func(q *api.QueryOptions) (*api.ACLTokenResponse, error) {
		switch q.AuthToken {
		case "alice-secret":
			return &api.ACLTokenResponse{Token: &api.ACLToken{
				AccessorID: "a1", SecretID: q.AuthToken, Name: "alice", Type: api.ACLClientToken, Policies: []string{"web"},
				Roles: []*api.ACLTokenRoleLink{{ID: "r1", Name: "team"}}, Global: true, CreateTime: created,
			}}, nil
		case "no-leader":
			return nil, fault.New(fault.Unavailable, "No cluster leader")
		case "no-acl":
			return nil, access.ErrDisabled
		}
		return nil, fault.New(fault.Denied, "Permission denied")
	})
	return c, httpapi.New(httpapi.Config{Servers: c, Audit: audit.Config{Sinks: sinks, Filters: filters, Address: "10.0.0.1:4646"}})
}

func ask(h http.Handler, method, target, token, body string) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest(method, target, strings.NewReader(body)), httptest.NewRecorder()
	if token != "" {
		r.Header.Set("X-Nomad-Token", token)
	}
	h.ServeHTTP(w, r)
	return w
}

func TestARequestHasTwoEvents(t *testing.T) {
	t.Parallel()
	out := &output{}
	c, h := auditing([]*audit.Sink{{Output: out, Enforced: true}})
	ask(h, "GET", "/v1/jobs?namespace=shop&prefix=we&region=west", "alice-secret", "")
	events := out.events(t)
	if len(events) != 2 {
		t.Fatalf("events are %+v", events)
	}
	for i, e := range events {
		p := e.Payload
		stage := []string{"OperationReceived", "OperationComplete"}[i]
		if e.EventType != "audit" || p.Type != "audit" || p.Version != 1 || p.Stage != stage || e.CreatedAt.IsZero() ||
			p.ID != events[0].Payload.ID || p.ID == "" || p.Request.ID != events[0].Payload.Request.ID || p.Request.ID == p.ID {
			t.Errorf("event is %+v", e)
		}
		if a := p.Auth; a.AccessorID != "a1" || a.Name != "alice" || len(a.Policies) != 1 || len(a.Roles) != 1 || a.Roles[0].Name != "team" || !a.Global || a.CreateTime.Unix() != 1_000_000 {
			t.Errorf("caller is %+v", a)
		}
		r := p.Request
		if r.Operation != "GET" || r.Endpoint != "/v1/jobs" || r.Namespace.ID != "shop" || r.Region != "west" || r.Prefix != "we" || r.RequestMeta.RemoteAddress == "" || r.NodeMeta.IP != "10.0.0.1:4646" {
			t.Errorf("request is %+v", r)
		}
	}
	if r := events[1].Payload.Response; events[0].Payload.Response != nil || r == nil || r.StatusCode != 400 || r.Error != "Bad Request" {
		t.Errorf("response is %+v", r)
	}
	ask(h, "GET", "/v1/jobs?region=west", "alice-secret", "")
	if n := len(c.asked[wire.ACLWhoAmI.Name]); n != 1 {
		t.Errorf("the servers were asked %d times for one token", n)
	}
}

func TestCallersAreNamed(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]string{"": "anonymous", "alice-secret": "a1", "bad": "unknown", "no-leader": "unresolved", "no-acl": "anonymous"} {
		out := &output{}
		_, h := auditing([]*audit.Sink{{Output: out}})
		ask(h, "GET", "/v1/jobs", token, "")
		for _, e := range out.events(t) {
			if got := e.Payload.Auth.AccessorID; got != want {
				t.Errorf("token %q is that of %q, want %q", token, got, want)
			}
		}
	}
}

func TestNoSecretIsRecorded(t *testing.T) {
	t.Parallel()
	const canary = "c0ffee00-dead-4bad-8bad-5eb5ec123456"
	out := &output{}
	c, h := auditing([]*audit.Sink{{Output: out, Enforced: true}})
	on(c, wire.ACLOneTimeExchange, func(*api.OneTimeTokenExchangeRequest) (*api.ACLTokenWriteResponse, error) {
		return &api.ACLTokenWriteResponse{Token: &api.ACLToken{AccessorID: "a", SecretID: canary}}, nil
	})
	sent := 0
	for _, target := range []string{
		"/v1/jobs?token=" + canary, "/v1/jobs?ott=" + canary, "/v1/jobs?" + canary, "/v1/jobs?" + canary + "=1", "/ui/?ott=" + canary, "/v1/jobs?stale=" + canary,
		"/v1/jobs?filter=" + canary, "/v1/jobs?next_token=" + canary, "/v1/jobs?index=" + canary, "/v1/acl/oidc/auth-url?x=" + canary, "/v1//jobs?token=" + canary,
		"/v1/acl/token/onetime/exchange", "/v1/acl/login", "/v1/acl/bootstrap", "/v1/jobs/parse", "/v1/volume/csi/a", "/v1/var/a", "/v1/job/a/dispatch", "/debug/pprof/?token=" + canary,
	} {
		for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
			for _, body := range []string{`{"OneTimeSecretID":"` + canary + `"}`, `{"JobHCL":"job \"` + canary + `\" {"}`, `{"` + canary + `":[}`, canary} {
				r := httptest.NewRequest(method, target, strings.NewReader(body))
				for _, header := range []string{"X-Vault-Token", "X-Consul-Token", "Cookie", "Referer", "Proxy-Authorization", "X-" + canary, "Origin"} {
					r.Header.Set(header, canary)
				}
				h.ServeHTTP(httptest.NewRecorder(), r)
				sent++
			}
		}
	}
	for _, header := range []string{"X-Nomad-Token", "Authorization"} {
		r := httptest.NewRequest("GET", "/v1/acl/token/"+canary+"?namespace="+canary+"&prefix="+canary+"&region="+canary, nil)
		r.Header.Set(header, map[string]string{"X-Nomad-Token": "", "Authorization": "Bearer "}[header]+canary)
		r.Header.Set("User-Agent", "curl "+canary)
		h.ServeHTTP(httptest.NewRecorder(), r)
		sent++
	}
	if text := out.text.String(); strings.Contains(text, canary) || strings.Contains(text, canary[:8]) {
		t.Errorf("a secret was recorded: ...%.300s", text[strings.Index(text, canary[:8])-200:])
	}
	if n := len(out.events(t)); n != 2*sent {
		t.Errorf("%d events of %d requests", n, sent)
	}
}

// No request is served whose event is not written, and none that was served is missing.
func TestEnforcedDeliveryRefusesRequests(t *testing.T) {
	t.Parallel()
	out := &output{}
	c, h := auditing([]*audit.Sink{{Output: out, Enforced: true}})
	on(c, wire.ACLTokenDelete, func(*api.ACLTokenDeleteRequest) (*api.WriteMeta, error) {
		out.fails = errors.New("no space left on device")
		return &api.WriteMeta{}, nil
	})
	served := func() int { return len(c.asked[wire.ACLTokenDelete.Name]) }
	if w := ask(h, "DELETE", "/v1/acl/token/x", "", ""); w.Code != 200 || served() != 1 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	w := ask(h, "DELETE", "/v1/acl/token/x", "", "")
	if w.Code != 500 || !strings.HasPrefix(w.Body.String(), "audit log: ") || !strings.Contains(w.Body.String(), "no space left") || strings.Contains(w.Body.String(), "/the/path") || served() != 1 {
		t.Errorf("%d %s, served %d times", w.Code, w.Body, served())
	}
	out.fails = nil
	if w := ask(h, "GET", "/v1/jobs", "", ""); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	var got []string
	for _, e := range out.events(t) {
		got = append(got, e.Payload.Stage+" "+e.Payload.Request.Operation)
	}
	if want := "[OperationReceived DELETE OperationComplete DELETE OperationReceived GET OperationComplete GET]"; fmt.Sprint(got) != want {
		t.Errorf("events are %v", got)
	}
	if out.synced != 2 {
		t.Errorf("%d syncs, want those of the write only", out.synced)
	}
}

func TestBestEffortServesRequests(t *testing.T) {
	t.Parallel()
	out, other := &output{fails: errors.New("read-only file system")}, &output{}
	_, h := auditing([]*audit.Sink{{Output: out}, {Output: other}})
	if w := ask(h, "GET", "/v1/jobs", "", ""); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	out.fails = nil
	ask(h, "PUT", "/v1/system/gc", "", "")
	if n, all := len(out.events(t)), len(other.events(t)); n != 2 || all != 4 || out.synced+other.synced > 0 {
		t.Errorf("%d and %d events, %d syncs", n, all, out.synced+other.synced)
	}
}

func TestFiltersDropEvents(t *testing.T) {
	t.Parallel()
	all := []string{"*"}
	for _, test := range []struct {
		filter         audit.Filter
		method, target string
		want           string
	}{
		{audit.Filter{Endpoints: []string{"/v1/metrics"}, Stages: all, Operations: all}, "GET", "/v1/metrics?format=x", ""},
		{audit.Filter{Endpoints: []string{"/v1/metrics"}, Stages: all, Operations: all}, "GET", "/v1/metrics/x", "RC"},
		{audit.Filter{Endpoints: []string{"/v1/metrics*"}, Stages: all, Operations: all}, "PUT", "/v1/metrics%2F..%2Fjobs", ""},
		{audit.Filter{Endpoints: []string{"/v1/jobs"}, Stages: all, Operations: all}, "GET", "/v1/%6Aobs", "RC"},
		{audit.Filter{Endpoints: []string{"/v1/job/*/plan"}, Stages: all, Operations: all}, "PUT", "/v1/job/a%2Fb/plan", ""},
		{audit.Filter{Endpoints: all, Stages: []string{"OperationReceived"}, Operations: all}, "GET", "/v1/jobs", "C"},
		{audit.Filter{Endpoints: all, Stages: []string{"OperationComplete"}, Operations: all}, "GET", "/v1/jobs", "R"},
		{audit.Filter{Endpoints: all, Stages: all, Operations: []string{"GET", "HEAD"}}, "HEAD", "/v1/jobs", ""},
		{audit.Filter{Endpoints: all, Stages: all, Operations: []string{"GET"}}, "PUT", "/v1/jobs", "RC"},
	} {
		out := &output{}
		_, h := auditing([]*audit.Sink{{Output: out}}, audit.Filter{Endpoints: []string{"/nothing"}, Stages: all, Operations: all}, test.filter)
		ask(h, test.method, test.target, "", "")
		got := ""
		for _, e := range out.events(t) {
			got += strings.TrimPrefix(e.Payload.Stage, "Operation")[:1]
		}
		if got != test.want {
			t.Errorf("%+v, %s %s: events %q, want %q", test.filter, test.method, test.target, got, test.want)
		}
	}
}

// With the first stage filtered, requests are refused while the end of an earlier one cannot be written.
func TestNothingIsServedWhileAnEventWaits(t *testing.T) {
	t.Parallel()
	out := &output{fails: errors.New("full")}
	c, h := auditing([]*audit.Sink{{Output: out, Enforced: true}}, audit.Filter{Endpoints: []string{"*"}, Stages: []string{audit.OperationReceived}, Operations: []string{"*"}})
	first, second := ask(h, "GET", "/v1/jobs", "", ""), ask(h, "GET", "/v1/jobs", "", "")
	if first.Code != 200 || second.Code != 500 || len(c.asked[wire.JobList.Name]) != 1 {
		t.Errorf("%d, %d", first.Code, second.Code)
	}
	out.fails = nil
	if third := ask(h, "GET", "/v1/jobs", "", ""); third.Code != 200 || len(out.events(t)) != 2 {
		t.Errorf("%d", third.Code)
	}
}

func TestConcurrentRequestsAreAllRecorded(t *testing.T) {
	t.Parallel()
	out := &output{}
	_, h := auditing([]*audit.Sink{{Output: out, Enforced: true}})
	var clients errgroup.Group
	for i := range 16 {
		clients.Go(func() error {
			for range 20 {
				if w := ask(h, "GET", "/v1/jobs", []string{"", "alice-secret", "bad"}[i%3], ""); w.Code != 200 {
					return fmt.Errorf("%d %s", w.Code, w.Body)
				}
			}
			return nil
		})
	}
	if err := clients.Wait(); err != nil {
		t.Fatal(err)
	}
	requests := map[string]int{}
	for _, e := range out.events(t) {
		requests[e.Payload.Request.ID]++
	}
	if len(requests) != 320 {
		t.Errorf("%d requests", len(requests))
	}
	for id, n := range requests {
		if n != 2 {
			t.Errorf("request %s has %d events", id, n)
		}
	}
}

func TestFurtherPathsNeedAToken(t *testing.T) {
	t.Parallel()
	c := newCluster()
	on(c, wire.ACLCheck, func(r *api.ACLCheckRequest) (*api.ACLCheckResponse, error) {
		if r.AuthToken != "operator" || r.Right.On != api.OnAgent || r.Right.Any[0] != "write" {
			return nil, access.ErrDenied
		}
		return &api.ACLCheckResponse{}, nil
	})
	h := httpapi.New(httpapi.Config{Servers: c, AccessControl: true, Extra: map[string]http.Handler{"/debug/pprof/": http.NotFoundHandler()}})
	for token, code := range map[string]int{"": 403, "other": 403, "operator": 404} {
		if w := ask(h, "GET", "/debug/pprof/cmdline", token, ""); w.Code != code {
			t.Errorf("token %q: %d %s", token, w.Code, w.Body)
		}
	}
}

// BenchmarkAudit measures what the audit log adds to a request with a token, with best-effort delivery to a file.
func BenchmarkAudit(b *testing.B) {
	file, err := os.Create(filepath.Join(b.TempDir(), "audit.json"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	_, off := auditing(nil)
	_, on := auditing([]*audit.Sink{{Output: file}})
	times := map[string][]time.Duration{}
	for b.Loop() {
		for range 5000 {
			for name, h := range map[string]http.Handler{"off": off, "on": on} {
				start := time.Now()
				ask(h, "GET", "/v1/system/nothing", "alice-secret", "")
				times[name] = append(times[name], time.Since(start))
			}
		}
	}
	median := func(name string) float64 {
		slices.Sort(times[name])
		return float64(times[name][len(times[name])/2].Nanoseconds()) / 1000
	}
	b.ReportMetric(median("on")-median("off"), "us-added/request")
}
