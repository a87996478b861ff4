package httpapi_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/httpapi"
)

func TestSocketOfATaskNeedsAToken(t *testing.T) {
	c := newCluster()
	on(c, wire.ACLCheck, func(r *api.ACLCheckRequest) (*api.ACLCheckResponse, error) {
		switch {
		case r.Right.On != "":
			t.Errorf("asked for %+v", r.Right)
		case r.AuthToken == "away":
			return nil, fault.New(fault.Unavailable, "no leader")
		case r.AuthToken != "good":
			return nil, access.ErrDenied
		}
		return &api.ACLCheckResponse{AccessorID: "x"}, nil
	})
	on(c, wire.StatusLeader, func(*api.QueryOptions) (*api.StatusLeaderResponse, error) {
		return &api.StatusLeaderResponse{Leader: "here"}, nil
	})
	h := httpapi.New(httpapi.Config{Servers: c, Authenticated: true})
	expect(t, send(h, "GET", "/v1/status/leader", ""), http.StatusUnauthorized, "Unauthorized")
	expect(t, send(h, "GET", "/v1/status/leader", "", "X-Nomad-Token", "bad"), http.StatusForbidden, "Forbidden")
	expect(t, send(h, "GET", "/v1/status/leader", "", "X-Nomad-Token", "away"), http.StatusServiceUnavailable, "Service Unavailable")
	expect(t, send(h, "GET", "/v1/status/leader", "", "Authorization", "Bearer good"), http.StatusOK, `"here"`)
}

func TestConnectionsOfATaskAreLimited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	raw, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := httpapi.Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RemoteAddr) }))
	l := httpapi.Limits{ConnsPerClient: 1}.Guard(server, httpapi.TaskListener(raw, "a1", "the:task"), false, hclog.NewNullLogger())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	get := func() (int, string) {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}}
		t.Cleanup(client.CloseIdleConnections)
		resp, err := client.Get("http://task/")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	if code, text := get(); code != http.StatusOK || text != "a1/the%3Atask:1" {
		t.Errorf("first: %d %s", code, text)
	}
	if code, _ := get(); code != http.StatusTooManyRequests {
		t.Errorf("second: %d", code)
	}
	_ = server.Close()
	<-ended
}
