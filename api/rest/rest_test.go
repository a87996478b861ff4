package rest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
)

// echo answers every request with an empty job list and remembers it.
func echo(t *testing.T, answer http.HandlerFunc) (*rest.Client, *http.Request) {
	t.Helper()
	seen := &http.Request{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*seen = *r.Clone(context.Background())
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	c, err := rest.New(rest.Config{Address: server.URL + "/base/", Namespace: "team", Region: "eu", Token: "secret", User: "u", Password: "p"})
	if err != nil {
		t.Fatal(err)
	}
	return c, seen
}

func TestRequestsSayWhoAsksForWhat(t *testing.T) {
	t.Parallel()
	c, seen := echo(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Nomad-Index", "12")
		w.Header().Set("X-Nomad-LastContact", "5")
		w.Header().Set("X-Nomad-KnownLeader", "true")
		w.Header().Set("X-Nomad-NextToken", "next")
		_, _ = io.WriteString(w, "[]")
	})
	_, meta, err := c.JobAllocations(t.Context(), "a/b c", true, rest.Query{Index: 3, Wait: time.Second, Stale: true, PerPage: 2, Reverse: true, Filter: "x == 1"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := seen.URL.EscapedPath(), "/base/v1/job/a%2Fb%20c/allocations"; got != want {
		t.Errorf("path %s, want %s", got, want)
	}
	if got, want := seen.URL.RawQuery, "all=true&filter=x+%3D%3D+1&index=3&namespace=team&per_page=2&region=eu&reverse=true&stale=true&wait=1s"; got != want {
		t.Errorf("query %s, want %s", got, want)
	}
	user, password, _ := seen.BasicAuth()
	if seen.Header.Get("X-Nomad-Token") != "secret" || user != "u" || password != "p" {
		t.Errorf("headers %v", seen.Header)
	}
	if want := (rest.Meta{Index: 12, LastContact: 5 * time.Millisecond, KnownLeader: true, NextToken: "next"}); meta != want {
		t.Errorf("meta %+v, want %+v", meta, want)
	}
}

func TestRedirectsToOthersCarryNoCredentials(t *testing.T) {
	t.Parallel()
	other := make(chan *http.Request, 9)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		other <- r.Clone(context.Background())
		_, _ = io.WriteString(w, "[]")
	}))
	defer elsewhere.Close()
	c, seen := echo(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/base/v1/jobs":
			http.Redirect(w, r, "/moved?"+r.URL.RawQuery, http.StatusTemporaryRedirect)
		case r.URL.Query().Get("prefix") == "away", strings.HasSuffix(r.URL.Path, "/away"): // localhost is another name of the same host
			http.Redirect(w, r, strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1)+"/steal", http.StatusTemporaryRedirect)
		default:
			_, _ = io.WriteString(w, "[]")
		}
	})
	if _, _, err := c.Jobs(t.Context(), rest.Query{}); err != nil || seen.URL.Path != "/moved" || seen.Header.Get("X-Nomad-Token") != "secret" {
		t.Errorf("within the server: %s with headers %v, error %v", seen.URL, seen.Header, err)
	}
	if _, _, err := c.Jobs(t.Context(), rest.Query{Prefix: "away"}); err != nil {
		t.Fatal(err)
	}
	r := <-other
	if err := c.PutNamespace(t.Context(), &api.Namespace{Name: "away"}); err == nil || len(other) > 0 {
		t.Errorf("a write went to another host: error %v", err)
	}
	if user, password, _ := r.BasicAuth(); r.Header.Get("X-Nomad-Token") != "" || user != "" || password != "" {
		t.Errorf("another host was told %v", r.Header)
	}
}

func TestErrorsKeepTheirClass(t *testing.T) {
	t.Parallel()
	for _, class := range []fault.Class{fault.Invalid, fault.NotFound, fault.Denied, fault.Conflict, fault.Exhausted, fault.Unavailable, fault.TooLarge, fault.Timeout, fault.Unimplemented, fault.Unauthenticated, fault.Internal} {
		c, _ := echo(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "because", class.HTTPStatus()) })
		_, _, err := c.Jobs(t.Context(), rest.Query{})
		var e *rest.Error
		if !errors.Is(err, class) || !errors.As(err, &e) || e.Text != "because" || fault.Of(err) != class {
			t.Errorf("%s: error %v has class %s", class, err, fault.Of(err))
		}
	}
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `"here"`) })}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	long := filepath.Join(filepath.Dir(path), strings.Repeat("long", 30))
	if err := os.Mkdir(long, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path, long+"/s"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, long + "/s"} {
		c, err := rest.New(rest.Config{Address: "unix://" + path})
		if err != nil {
			t.Fatal(err)
		}
		if leader, err := c.Leader(t.Context()); err != nil || leader != "here" {
			t.Errorf("%d bytes: leader %q, error %v", len(path), leader, err)
		}
	}
}

func TestBadAddresses(t *testing.T) {
	t.Parallel()
	for _, a := range []string{"ftp://x", "http://", "127.0.0.1:4646", "%"} {
		if _, err := rest.New(rest.Config{Address: a}); !errors.Is(err, fault.Invalid) {
			t.Errorf("address %q: error %v", a, err)
		}
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	c, err := rest.New(rest.Config{Address: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Jobs(t.Context(), rest.Query{}); !errors.Is(err, fault.Unavailable) {
		t.Errorf("error %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := c.Jobs(gone, rest.Query{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("NOMAD_ADDR", "http://a:1")
	t.Setenv("NOMAD_NAMESPACE", "n")
	t.Setenv("NOMAD_TOKEN", "t")
	t.Setenv("NOMAD_HTTP_AUTH", "u:p:q")
	t.Setenv("NOMAD_SKIP_VERIFY", "true")
	c := rest.FromEnvironment()
	if c.Address != "http://a:1" || c.Namespace != "n" || c.Token != "t" || c.User != "u" || c.Password != "p:q" || !c.TLS.SkipVerify {
		t.Errorf("config %+v", c)
	}
}

func TestInAnotherNamespace(t *testing.T) {
	t.Parallel()
	c, seen := echo(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
	if _, err := c.In("other").CreateVolume(t.Context(), &api.VolumeSpec{ID: "v"}); err != nil {
		t.Fatal(err)
	}
	if seen.URL.Query().Get("namespace") != "other" || c.Namespace() != "team" {
		t.Errorf("asked %s", seen.URL)
	}
	if _, err := c.CreateVolume(t.Context(), &api.VolumeSpec{ID: "v", Namespace: "own"}); err != nil || seen.URL.Query().Get("namespace") != "own" {
		t.Errorf("asked %s, error %v", seen.URL, err)
	}
}
