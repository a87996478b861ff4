package httpapi_test

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/httpapi"
)

// openRoutes need no token.
var openRoutes = []string{
	"GET /", "GET /v1/status/leader", "GET /v1/status/peers", "GET /v1/regions", "GET /v1/agent/health", "GET /v1/metrics",
	"GET /.well-known/jwks.json", "GET /.well-known/openid-configuration", "GET /v1/operator/license", "PUT /v1/operator/license",
	"PUT /v1/acl/bootstrap", "PUT /v1/acl/token/onetime/exchange", "GET /v1/acl/auth-methods", "PUT /v1/acl/login", "PUT /v1/acl/oidc/auth-url",
	"PUT /v1/acl/oidc/complete-auth",
}

// judgedRoutes show to callers without a token what the anonymous policy permits: nothing.
var judgedRoutes = []string{
	"GET /v1/namespaces", "GET /v1/namespace/:id", "GET /v1/acl/token/self", "GET /v1/acl/explain", "GET /v1/vars", "GET /v1/services",
	"GET /v1/acl/policies", "GET /v1/acl/policy/self", "GET /v1/acl/roles",
}

// needed is what the bodies of routes must have to get to the servers.
var needed = map[string]string{
	"PUT /v1/jobs": `{"Job":{"ID":"x","Type":"batch"}}`, "PUT /v1/job/:id": `{"Job":{"ID":"x"}}`, "PUT /v1/job/:id/plan": `{"Job":{"ID":"x"}}`,
	"PUT /v1/validate/job": `{"Job":{"ID":"x"}}`, "PUT /v1/jobs/parse": `{"JobHCL":"job \"x\" {}"}`, "PUT /v1/job/:id/stable": `{"JobID":"x"}`,
	"PUT /v1/job/:id/revert": `{"JobID":"x"}`, "PUT /v1/job/:id/evaluate": `{"JobID":"x"}`, "PUT /v1/search": `{"Prefix":"x","Context":"all"}`, "PUT /v1/search/fuzzy": `{"Text":"xx"}`,
	"PUT /v1/jobs/statuses": `{"Jobs":[{"ID":"x"}]}`, "PUT /v1/client/metadata": `{"Meta":{"k":"v"}}`,
	"PUT /v1/job/:id/dispatch": `{"JobID":"x"}`, "PUT /v1/job/:id/scale": `{"Count":1,"Target":{"Group":"g","Job":"x"}}`, "PUT /v1/job/:id/versions/:tag/tag": `{"Version":0}`,
	"PUT /v1/node/:id/eligibility": `{"Eligibility":"eligible"}`, "PUT /v1/node/:id/drain": `{"DrainSpec":{}}`, "PUT /v1/node/pools": `{"Name":"x"}`, "PUT /v1/node/pool/:id": `{"Name":"x"}`,
	"PUT /v1/namespace": `{"Name":"x"}`, "PUT /v1/namespaces": `{"Name":"x"}`, "PUT /v1/namespace/:id": `{"Name":"x"}`,
	"PUT /v1/volumes": `{"Volumes":[{"ID":"x"}]}`, "PUT /v1/volume/csi/:id": `{"Volumes":[{"ID":"x"}]}`, "PUT /v1/volume/csi/:id/create": `{"Volumes":[{"ID":"x"}]}`,
	"PUT /v1/volumes/snapshot": `{"Snapshots":[{"SourceVolumeID":"x"}]}`, "PUT /v1/client/allocation/:id/signal": `{"Signal":"SIGHUP"}`, "PUT /v1/client/allocation/:id/pause": `{"ScheduleState":"run"}`,
	"PUT /v1/acl/policy/:id": `{"Name":"x","Rules":""}`, "PUT /v1/acl/token": `{"Type":"client","Policies":["x"]}`, "PUT /v1/acl/token/:id": `{"AccessorID":"x","Type":"client","Policies":["x"]}`,
	"PUT /v1/acl/role": `{"Name":"x","Policies":[{"Name":"x"}]}`, "PUT /v1/acl/role/:id": `{"ID":"x","Name":"x","Policies":[{"Name":"x"}]}`,
	"PUT /v1/acl/auth-method": `{"Name":"x"}`, "PUT /v1/acl/auth-method/:id": `{"Name":"x"}`, "PUT /v1/acl/binding-rule": `{"AuthMethod":"x"}`, "PUT /v1/acl/binding-rule/:id": `{"ID":"x"}`,
	"DELETE /v1/evaluations": `{"EvalIDs":["x"]}`, "PUT /v1/deployment/pause/:id": `{"DeploymentID":"x"}`, "PUT /v1/deployment/promote/:id": `{"DeploymentID":"x","All":true}`,
	"PUT /v1/deployment/allocation-health/:id": `{"DeploymentID":"x","HealthyAllocationIDs":["y"]}`, "PUT /v1/deployment/unblock/:id": `{"DeploymentID":"x"}`,
	"PUT /v1/var/:id":            `{"Items":{"a":"1"}}`,
	"PUT /v1/volume/host/create": `{"Volume":{"Name":"x"}}`, "PUT /v1/volume/host/register": `{"Volume":{"Name":"x"}}`,
	"PUT /v1/quota": `{"Name":"x"}`, "PUT /v1/quota/:id": `{"Name":"x"}`,
}

// queries are parameters that routes need to get to the servers.
var queries = map[string]string{
	"GET /v1/volumes": "type=csi", "GET /v1/plugins": "type=csi", "GET /v1/volumes/external": "plugin_id=x", "GET /v1/volumes/snapshot": "plugin_id=x",
	"DELETE /v1/volumes/snapshot": "plugin_id=x&snapshot_id=x", "DELETE /v1/volume/csi/:id/detach": "node=x", "DELETE /v1/volumes/attachments": "node=x&plugin_id=x&external_id=x",
	"GET /v1/client/stats": "node_id=x", "GET /v1/client/metadata": "node_id=x", "GET /v1/agent/monitor": "node_id=x", "GET /v1/agent/monitor/export": "node_id=x&on_disk=true", "GET /v1/agent/host": "node_id=x", "GET /v1/agent/pprof/:id": "node_id=x", "PUT /v1/client/metadata": "node_id=x", "* /v1/client/gc": "node_id=x", "GET /v1/client/identity": "node_id=x", "PUT /v1/client/identity/renew": "node_id=x", "GET /v1/client/fs/logs/:id": "task=t&type=stdout", "GET /v1/client/fs/stat/:id": "path=/",
	"GET /v1/client/fs/cat/:id": "path=/", "GET /v1/client/fs/readat/:id": "path=/&offset=0&limit=1", "GET /v1/client/fs/stream/:id": "path=/",
	"PUT /v1/agent/join": "address=x", "PUT /v1/agent/force-leave": "node=x", "DELETE /v1/operator/raft/peer": "id=x", "PUT /v1/operator/raft/transfer-leadership": "id=x",
	"PUT /v1/agent/servers": "address=x", "GET /v1/acl/explain": "on=node&capability=read", "DELETE /v1/operator/keyring/key/:id": "force=true",
	"PUT /v1/volume/csi/:id/detach": "node=x", "GET /v1/client/allocation/:id/exec": "task=t&command=%5B%22x%22%5D", "GET /v1/job/:id/action": "task=t&action=x&allocID=x",
}

// TestEveryRouteAsksForAToken calls each route of the table without a token, with an unknown one and with a management token.
func TestEveryRouteAsksForAToken(t *testing.T) {
	t.Parallel()
	s, err := nomad.New(nomad.Config{
		Name: "s1", Region: "global", Datacenter: "dc1", Bind: "127.0.0.1:0", Log: hclog.NewNullLogger(), AccessControl: true, Workers: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	management := ""
	for end := time.Now().Add(30 * time.Second); management == ""; {
		out, err := wire.ACLBootstrap.Call(t.Context(), s.Caller(), &api.ACLBootstrapRequest{})
		switch {
		case err == nil:
			management = out.Token.SecretID
		case time.Now().After(end):
			t.Fatal(err)
		}
	}
	conf := httpapi.Config{
		Servers: s.Caller(), Node: s.Node, Region: "global", AccessControl: true, Schedulers: s.Schedulers(),
		Self: func() *api.AgentSelf { return &api.AgentSelf{} }, Reload: func() error { return nil },
		ServerAddresses: func() []string { return nil }, SetServerAddresses: func([]string) error { return nil },
	}
	h := httpapi.New(conf)
	send := func(method, pattern, token string) *httptest.ResponseRecorder {
		name := method + " " + pattern
		path := strings.NewReplacer(":id", "x", ":tag", "t").Replace(pattern)
		if q := queries[name]; q != "" {
			path += "?" + q
		}
		if method == "*" {
			method = http.MethodGet
		}
		r := httptest.NewRequest(method, path, strings.NewReader(cmp.Or(needed[name], "{}")))
		ctx := t.Context()
		if name == "GET /v1/event/stream" { // it does not end by itself
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Second)
			defer cancel()
		}
		r = r.WithContext(ctx)
		if token != "" {
			r.Header.Set("X-Nomad-Token", token)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for _, route := range conf.Routes() {
		name := route.Method + " " + route.Pattern
		for who, token := range map[string]string{"no token": "", "an unknown token": "unknown"} {
			w := send(route.Method, route.Pattern, token)
			switch {
			case slices.Contains(openRoutes, name):
				if w.Code == http.StatusForbidden && !strings.Contains(name, "onetime") {
					t.Errorf("%s is open, and with %s: %d %s", name, who, w.Code, w.Body)
				}
			case w.Code == http.StatusNotImplemented:
			case slices.Contains(judgedRoutes, name) && token == "":
				if body := strings.TrimSpace(w.Body.String()); w.Code == http.StatusOK && body != "[]" && name != "GET /v1/acl/explain" && name != "GET /v1/acl/token/self" {
					t.Errorf("%s with %s: %d %s", name, who, w.Code, body)
				}
			case w.Code != http.StatusForbidden:
				t.Errorf("%s with %s: %d %s", name, who, w.Code, w.Body)
			}
		}
		if strings.HasPrefix(route.Pattern, "/v1/operator/snapshot") || strings.HasPrefix(route.Pattern, "/v1/operator/raft") {
			continue // they change the server
		}
		if w := send(route.Method, route.Pattern, management); w.Code == http.StatusForbidden && !strings.Contains(name, "onetime") {
			t.Errorf("%s with a management token: %s", name, w.Body)
		}
	}
}
