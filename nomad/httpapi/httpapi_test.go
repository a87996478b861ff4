package httpapi_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi"
)

// everyRoute is one valid request per endpoint.
var everyRoute = []string{
	"GET /v1/jobs", `PUT /v1/jobs {"Job":{"ID":"j"}}`, `PUT /v1/validate/job {"Job":{"ID":"j"}}`, `PUT /v1/job/j/plan {"Job":{"ID":"j"}}`,
	"DELETE /v1/job/j", "PUT /v1/job/j/evaluate", "GET /v1/job/j", "GET /v1/job/j/versions", "GET /v1/job/j/submission",
	"GET /v1/job/j/summary", "GET /v1/job/j/allocations", "GET /v1/job/j/evaluations", "GET /v1/job/j/deployments",
	"GET /v1/job/j/deployment", `PUT /v1/job/j/revert {"JobID":"j"}`, `PUT /v1/job/j/stable {"JobID":"j"}`,
	`PUT /v1/job/j/versions/v/tag {"Version":1}`, "DELETE /v1/job/j/versions/v/tag", `PUT /v1/job/j/scale {"Target":{"Group":"g"}}`,
	"GET /v1/job/j/scale", "PUT /v1/job/j/dispatch {}", "PUT /v1/job/j/periodic/force", "GET /v1/scaling/policies", "GET /v1/scaling/policy/p",
	"GET /v1/evaluations/count", `DELETE /v1/evaluations {"EvalIDs":["e"]}`,
	"GET /v1/jobs/statuses", `PUT /v1/search/fuzzy {"Text":"xx"}`, "GET /v1/client/metadata", `PUT /v1/client/metadata {"Meta":{"k":"v"}}`,
	"GET /v1/agent/host?server_id=s", "GET /v1/agent/pprof/heap?server_id=s", "GET /v1/agent/host?node_id=n", "GET /v1/agent/pprof/heap?node_id=n",
	"GET /v1/event/stream?topic=Job", "GET /v1/services", "GET /v1/service/s?choose=1|k", "DELETE /v1/service/s/i", "GET /v1/allocation/a1/services", "GET /v1/job/j/services",
	"GET /v1/evaluations", "GET /v1/evaluation/e", "GET /v1/evaluation/e/allocations",
	"GET /v1/allocations", "GET /v1/allocation/a1", "PUT /v1/allocation/a1/stop",
	"GET /v1/deployments", "GET /v1/deployment/d", "GET /v1/deployment/allocations/d", "PUT /v1/deployment/fail/d1",
	`PUT /v1/deployment/pause/d {"DeploymentID":"d"}`, `PUT /v1/deployment/promote/d {"DeploymentID":"d"}`,
	`PUT /v1/deployment/allocation-health/d {"DeploymentID":"d"}`, `PUT /v1/deployment/unblock/d {"DeploymentID":"d"}`,
	"GET /v1/nodes", "GET /v1/node/n", "GET /v1/node/n/allocations", "PUT /v1/node/n/evaluate", "PUT /v1/node/n/purge",
	`PUT /v1/node/n/eligibility {"Eligibility":"eligible"}`, `PUT /v1/node/n/drain {"DrainSpec":{}}`,
	"GET /v1/node/pools", "GET /v1/node/pool/p", `PUT /v1/node/pool/p {"Name":"p"}`, "DELETE /v1/node/pool/p",
	"GET /v1/volumes?type=csi", `PUT /v1/volume/csi/v {"Volumes":[{"ID":"v"}]}`, `PUT /v1/volume/csi/v/create {"Volumes":[{"ID":"v"}]}`,
	"DELETE /v1/volume/csi/v", "DELETE /v1/volume/csi/v/delete", "DELETE /v1/volume/csi/v/detach?node=n", "GET /v1/volume/csi/v",
	"GET /v1/volumes/attachments", "DELETE /v1/volumes/attachments?node=n&plugin_id=p&external_id=x",
	"GET /v1/volumes/external?plugin_id=p", `PUT /v1/volumes/snapshot {"Snapshots":[{"SourceVolumeID":"v"}]}`,
	"DELETE /v1/volumes/snapshot?plugin_id=p&snapshot_id=s", "GET /v1/volumes/snapshot?plugin_id=p",
	"GET /v1/plugins?type=csi", "GET /v1/plugin/csi/p", "GET /v1/plugins/doctor", "GET /v1/plugin/csi/p/doctor",
	"GET /v1/volumes/doctor", "GET /v1/volume/csi/v/doctor", "PUT /v1/volume/csi/v/doctor", "GET /v1/volume/csi/v1/timeline?last=2",
	"GET /v1/status/leader", "GET /v1/status/peers", "GET /v1/agent/members",
	"GET /v1/namespaces", "GET /v1/namespace/n", `PUT /v1/namespace {"Name":"n"}`, "DELETE /v1/namespace/n",
	"GET /v1/operator/scheduler/configuration", "PUT /v1/operator/scheduler/configuration {}", "GET /v1/operator/raft/configuration",
	"DELETE /v1/operator/raft/peer?id=s", "PUT /v1/operator/raft/transfer-leadership?id=s",
	"GET /v1/operator/autopilot/configuration", "PUT /v1/operator/autopilot/configuration {}", "GET /v1/operator/autopilot/health",
	"GET /v1/operator/snapshot", "PUT /v1/operator/snapshot bytes", "GET /v1/regions",
	"PUT /v1/agent/join?address=a", "PUT /v1/agent/force-leave?node=n", "GET /v1/agent/keyring/list",
	"GET /.well-known/jwks.json", "GET /.well-known/openid-configuration", "GET /v1/operator/keyring/keys", "PUT /v1/operator/keyring/rotate", "DELETE /v1/operator/keyring/key/k?force=true",
	"PUT /v1/system/gc", "PUT /v1/system/reconcile/summaries",
	"GET /v1/acl/auth-methods", "GET /v1/acl/auth-method/m", `PUT /v1/acl/auth-method {"Name":"m"}`, "DELETE /v1/acl/auth-method/m",
	"GET /v1/acl/binding-rules", "GET /v1/acl/binding-rule/r", `PUT /v1/acl/binding-rule {"AuthMethod":"m"}`, "DELETE /v1/acl/binding-rule/r",
	`PUT /v1/acl/login {"AuthMethodName":"m"}`, `PUT /v1/acl/oidc/auth-url {"AuthMethodName":"m"}`, `PUT /v1/acl/oidc/complete-auth {"AuthMethodName":"m"}`,
	"PUT /v1/client/allocation/a1/restart", `PUT /v1/client/allocation/a1/signal {"Signal":"SIGHUP"}`, "GET /v1/client/allocation/a1/stats", `PUT /v1/client/allocation/a1/pause {"ScheduleState":"run"}`, "GET /v1/client/allocation/a1/pause", "GET /v1/client/allocation/a1/checks",
	"GET /v1/client/allocation/a1/gc", "GET /v1/client/stats", "GET /v1/client/gc",
	"GET /v1/volumes?type=host", "GET /v1/volume/host/h", `PUT /v1/volume/host/create {"Volume":{"Name":"v"}}`, `PUT /v1/volume/host/register {"Volume":{"Name":"v"}}`,
	"DELETE /v1/volume/host/h", "GET /v1/volumes/claims", "DELETE /v1/volumes/claim/c",
	"GET /v1/client/identity", "PUT /v1/client/identity/renew", "PUT /v1/acl/identity/client-introduction-token",
	"GET /v1/client/fs/logs/a1?task=t&type=stdout", "GET /v1/client/fs/ls/a1", "GET /v1/client/fs/stat/a1?path=/", "GET /v1/client/fs/cat/a1?path=/",
}

func TestEveryUserMethodIsReachable(t *testing.T) {
	t.Parallel()
	c := world()
	on(c, wire.EventRead, func(*api.EventsRequest) (*api.EventsResponse, error) { // a stream would not end
		return nil, fault.New(fault.NotFound, "no events")
	})
	h := handler(c)
	for _, line := range everyRoute {
		method, rest, _ := strings.Cut(line, " ")
		target, body, _ := strings.Cut(rest, " ")
		if w := send(h, method, target, body); w.Code != http.StatusOK && w.Code != http.StatusNotFound {
			t.Errorf("%s: code %d: %s", line, w.Code, w.Body)
		}
	}
	for _, name := range userMethods(t) {
		if len(c.asked[name]) == 0 && name != wire.NodeCall.Name { // the way to nodes of other regions
			t.Errorf("no request reaches %s", name)
		}
	}
}

// userMethods reads the names of the methods for users out of the method table.
func userMethods(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../api/wire/methods.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok || len(lit.Elts) != 4 {
			return true
		}
		if auth, ok := lit.Elts[2].(*ast.Ident); ok && (auth.Name == "ByUser" || auth.Name == "ByOperator") {
			names = append(names, strings.Trim(lit.Elts[0].(*ast.BasicLit).Value, `"`))
		}
		return true
	})
	if len(names) < 40 {
		t.Fatalf("found only %d methods", len(names))
	}
	return names
}

func TestJobIDsMayContainSlashesAndVerbs(t *testing.T) {
	t.Parallel()
	for target, id := range map[string]string{
		"/v1/job/a/dispatch-1/versions":       "a/dispatch-1",
		"/v1/job/a%2Fdispatch-1/versions":     "a/dispatch-1",
		"/v1/job/a%2Fallocations/versions":    "a/allocations",
		"/v1/job/versions/versions":           "versions",
		"/v1/job/ein%20job%3F%23%25/versions": "ein job?#%",
	} {
		c := world()
		expect(t, send(handler(c), "GET", target, ""), 200, "")
		if got := last(t, c, wire.JobVersions).JobID; got != id {
			t.Errorf("%s asked for %q, want %q", target, got, id)
		}
	}
}

func TestQueryOptionsReachTheServer(t *testing.T) {
	t.Parallel()
	c := world()
	send(handler(c), "GET", "/v1/jobs?index=5&wait=2s&stale&namespace=*&prefix=w&region=global&per_page=1&next_token=b.a&reverse=true&filter=ID+is+not+empty", "", "Authorization", "bearer secret x")
	want := api.QueryOptions{Region: "global", Namespace: "*", AuthToken: "secret", Stale: true, MinIndex: 5, MaxWait: 2 * time.Second, Prefix: "w", Filter: "ID is not empty", PerPage: 1, NextToken: "b.a", Reverse: true}
	if got := last(t, c, wire.JobList).QueryOptions; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestOtherRegionsAreNotAnsweredFromHere(t *testing.T) {
	c := newCluster()
	expect(t, send(handler(c), "GET", "/v1/jobs?region=mars", ""), 400, "No path to region")
	if asked := c.methods(); len(asked) != 0 {
		t.Errorf("the servers were asked: %v", asked)
	}
}

// The servers say what the job lacks.
func TestAJobWithoutAnIDIsValidated(t *testing.T) {
	t.Parallel()
	c := world()
	if w := send(handler(c), "PUT", "/v1/validate/job", `{"Job":{"Name":"j"}}`); w.Code != 200 {
		t.Errorf("code %d: %s", w.Code, w.Body)
	}
	if r := last(t, c, wire.JobValidate); r.Job.Name != "j" {
		t.Errorf("asked for %+v", r.Job)
	}
}

func TestAServerThatIsNotKnownHasLeft(t *testing.T) {
	t.Parallel()
	c := newCluster()
	on(c, wire.StatusForceLeave, func(*api.ServerForceLeaveRequest) (*api.Empty, error) {
		return nil, fault.New(fault.NotFound, "no server %q", "x")
	})
	if w := send(handler(c), "PUT", "/v1/agent/force-leave?node=x", ""); w.Code != 200 {
		t.Errorf("code %d: %s", w.Code, w.Body)
	}
}

func TestNamespaceOfAJob(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ target, body, want string }{
		{"/v1/jobs", `{"Job":{"ID":"j"}}`, "default"},
		{"/v1/jobs", `{"Job":{"ID":"j","Namespace":"job"}}`, "job"},
		{"/v1/jobs", `{"Namespace":"wrapper","Job":{"ID":"j","Namespace":"job"}}`, "wrapper"},
		{"/v1/jobs?namespace=query", `{"Namespace":"wrapper","Job":{"ID":"j","Namespace":"job"}}`, "query"},
	} {
		c := world()
		expect(t, send(handler(c), "POST", x.target, x.body), 200, "e1")
		if r := last(t, c, wire.JobRegister); r.Namespace != x.want || r.Job.Namespace != x.want {
			t.Errorf("%s %s: namespace %q and %q, want %q", x.target, x.body, r.Namespace, r.Job.Namespace, x.want)
		}
	}
}

// TestBodyCannotSetServerFields: what the server derives cannot be set through a volume's body.
func TestBodyCannotSetServerFields(t *testing.T) {
	t.Parallel()
	c := world()
	body := `{"Volumes":[{"ID":"v1","Schedulable":true,"CreateIndex":4,"Provision":{"State":"available"},"WriteAllocs":{"a":null},"Secrets":{"k":"v"}}],"Timestamp":9}`
	expect(t, send(handler(c), "PUT", "/v1/volume/csi/v1", body), 200, "")
	r := last(t, c, wire.VolumeRegister)
	if r.Timestamp != 0 || r.Volumes[0].Secrets["k"] != "v" {
		t.Errorf("request %+v", r)
	}
}

// TestPathAndBodyMustAgree: a volume is not registered under another id than the path says.
func TestPathAndBodyMustAgree(t *testing.T) {
	t.Parallel()
	c := world()
	expect(t, send(handler(c), "PUT", "/v1/volume/csi/a", `{"Volumes":[{"ID":"b"}]}`), 400, `"b"`)
	if len(c.asked) > 0 {
		t.Errorf("servers were asked: %v", c.methods())
	}
}

// TestSecretsMayHoldCommas: the JSON form of the header carries any value.
func TestSecretsMayHoldCommas(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{"k=v,l=w": "v", `{"k":"a,b=c","l":"w"}`: "a,b=c"} {
		c := world()
		expect(t, send(handler(c), "DELETE", "/v1/volume/csi/v1/delete", "", "X-Nomad-CSI-Secrets", header), 200, "")
		if got := last(t, c, wire.VolumeDelete).Secrets; got["k"] != want || got["l"] != "w" {
			t.Errorf("header %s gave %v", header, got)
		}
	}
	expect(t, send(handler(world()), "DELETE", "/v1/volume/csi/v1/delete", "", "X-Nomad-CSI-Secrets", "novalue"), 400, "not key=value")
}

func TestNothingSecretLeaves(t *testing.T) {
	t.Parallel()
	h := handler(world())
	for _, target := range []string{"/v1/volume/csi/v1", "/v1/node/n1", "/v1/volumes?type=csi"} {
		if w := send(h, "GET", target, ""); strings.Contains(w.Body.String(), "hunter2") {
			t.Errorf("%s shows a secret: %s", target, w.Body)
		}
	}
	if w := send(h, "PUT", "/v1/volume/csi/v1/create", `{"Volumes":[{"ID":"v1"}]}`); strings.Contains(w.Body.String(), "hunter2") {
		t.Errorf("create shows a secret: %s", w.Body)
	}
}

// TestClassesBecomeCodes: whose fault it is decides the code.
func TestClassesBecomeCodes(t *testing.T) {
	t.Parallel()
	for class, code := range map[fault.Class]int{
		fault.Invalid: 400, fault.Denied: 403, fault.NotFound: 404, fault.Conflict: 409, fault.Exhausted: 429,
		fault.Internal: 500, fault.Unavailable: 503, fault.NotLeader: 503, fault.Timeout: 504,
	} {
		c := newCluster()
		on(c, wire.VolumeDeregister, func(*api.VolumeDeregisterRequest) (*api.WriteMeta, error) {
			return nil, fmt.Errorf("deregister: %w", fault.New(class, "volume in use"))
		})
		w := send(handler(c), "DELETE", "/v1/volume/csi/v1", "")
		expect(t, w, code, "deregister: volume in use")
		if got := w.Header().Get("Content-Type"); got != "text/plain; charset=utf-8" {
			t.Errorf("content type %q", got)
		}
	}
}

func TestLargeBodiesAreRefusedUnread(t *testing.T) {
	h := handler(world())
	r := httptest.NewRequest("PUT", "/v1/jobs", io.LimitReader(endless{}, 32<<20))
	r.ContentLength = 32 << 20
	w := httptest.NewRecorder()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	h.ServeHTTP(w, r)
	runtime.ReadMemStats(&after)
	expect(t, w, 413, "over the limit")
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("refusing took %d bytes", grown)
	}
	r = httptest.NewRequest("PUT", "/v1/jobs", io.LimitReader(endless{}, 32<<20))
	r.ContentLength = -1
	w = httptest.NewRecorder()
	h.ServeHTTP(w, r)
	expect(t, w, 413, "over the limit")
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestDeepBodiesAreRefused(t *testing.T) {
	t.Parallel()
	deep := `{"Job":{"ID":"j","Meta":` + strings.Repeat(`{"a":`, 100000) + "1" + strings.Repeat("}", 100000) + `}}`
	expect(t, send(handler(world()), "PUT", "/v1/jobs", deep), 400, "nested deeper")
	quoted := `{"Job":{"ID":"j","Name":"` + strings.Repeat(`[{\"`, 1000) + `"}}`
	expect(t, send(handler(world()), "PUT", "/v1/jobs", quoted), 200, "e1")
}

func TestBrokenBodiesAreTheCallersFault(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"{", "[]", `{"Job": 1}`, `{"Job": {"ID": 1}}`, "\xff", "null"} {
		expect(t, send(handler(world()), "PUT", "/v1/jobs", body), 400, "")
	}
}

func TestBrowsersOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	c := world()
	expect(t, send(handler(c), "PUT", "/v1/system/gc", "", "Sec-Fetch-Site", "cross-site"), 403, "")
	if len(c.asked) > 0 {
		t.Error("the request went through")
	}
}

func TestAnswersAreZipped(t *testing.T) {
	t.Parallel()
	c := newCluster()
	on(c, wire.NodeList, func(*api.NodeListRequest) (*api.NodeListResponse, error) {
		return &api.NodeListResponse{Nodes: []*api.NodeStub{{ID: strings.Repeat("x", 5000)}}}, nil
	})
	w := send(handler(c), "GET", "/v1/nodes", "", "Accept-Encoding", "gzip")
	if w.Header().Get("Content-Encoding") != "gzip" || w.Body.Len() > 1000 {
		t.Errorf("not zipped: %v, %d bytes", w.Header(), w.Body.Len())
	}
}

func TestUnreachableNode(t *testing.T) {
	t.Parallel()
	// Clients ask again after 503: only a node of the cluster may come back.
	c := world()
	expect(t, send(handler(c), "GET", "/v1/client/stats?node_id=gone", ""), 404, "Unknown node")
	on(c, wire.NodeGet, func(*api.NodeRequest) (*api.NodeGetResponse, error) {
		return &api.NodeGetResponse{Node: &api.Node{ID: "gone"}}, nil
	})
	expect(t, send(handler(c), "GET", "/v1/client/stats?node_id=gone", ""), 503, "not connected")
	h := httpapi.New(httpapi.Config{Servers: world()})
	expect(t, send(h, "GET", "/v1/client/stats", ""), 400, "No local Node and node_id not provided")
}

func TestPostIsPut(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"PUT", "POST"} {
		expect(t, send(handler(world()), method, "/v1/volume/csi/v1", `{"Volumes":[{"ID":"v1"}]}`), 200, "")
	}
}

func TestFollowedLogsArriveBeforeTheyEnd(t *testing.T) {
	t.Parallel()
	c := world()
	more := make(chan string)
	on(c, wire.ClientAllocLogs, func(*api.AllocLogsRequest) (*api.AllocLogsResponse, error) {
		text, open := <-more
		return &api.AllocLogsResponse{Data: []byte(text), Cursor: api.LogCursor{Started: true}, End: true, Ended: !open}, nil
	})
	server := httptest.NewServer(handler(c))
	defer server.Close()
	client, err := rest.New(rest.Config{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	go func() { more <- "first" }()
	body, err := client.Logs(t.Context(), "a1", rest.LogOptions{Task: "t", Kind: "stdout", Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	got := make([]byte, 5)
	if _, err := io.ReadFull(body, got); err != nil || string(got) != "first" {
		t.Fatalf("read %q, %v", got, err)
	}
	more <- "second"
	close(more)
	if got, err := io.ReadAll(body); err != nil || string(got) != "second" {
		t.Fatalf("read %q, %v", got, err)
	}
}

func TestBrokenStreamIsSeen(t *testing.T) {
	t.Parallel()
	c := world()
	on(c, wire.ClientAllocLogs, func(r *api.AllocLogsRequest) (*api.AllocLogsResponse, error) {
		if r.Cursor.Started {
			return nil, fault.New(fault.Unavailable, "node went away")
		}
		return &api.AllocLogsResponse{Data: []byte("first"), Cursor: api.LogCursor{Started: true}}, nil
	})
	server := httptest.NewServer(handler(c))
	defer server.Close()
	client, _ := rest.New(rest.Config{Address: server.URL})
	body, err := client.Logs(t.Context(), "a1", rest.LogOptions{Task: "t", Kind: "stdout"})
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if text, err := io.ReadAll(body); err == nil {
		t.Errorf("a cut log looks whole: %q", text)
	}
}

func TestClientKeepsClasses(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(handler(world()))
	defer server.Close()
	client, err := rest.New(rest.Config{Address: server.URL, Namespace: "team"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := client.Volume(t.Context(), "none", rest.Query{}); !errors.Is(err, fault.NotFound) {
		t.Errorf("error %v is not fault.NotFound", err)
	}
	v, meta, err := client.Volume(t.Context(), "v1", rest.Query{})
	if err != nil || v.ExternalID != "x1" || meta.Index != 7 || !meta.KnownLeader {
		t.Errorf("volume %+v, meta %+v, error %v", v, meta, err)
	}
	j, _, err := client.Job(t.Context(), "web/dispatch-1", rest.Query{})
	if err != nil || j.ID != "web/dispatch-1" {
		t.Errorf("job %+v, error %v", j, err)
	}
	var file bytes.Buffer
	if err := client.File(t.Context(), "a1", "/f", &file); err != nil || file.String() != "hello, file" {
		t.Errorf("file %q, error %v", file.String(), err)
	}
}

func FuzzRequests(f *testing.F) {
	f.Add("/v1/job/%2F/plan", `{"Job":{"ID":"x"}}`)
	f.Add("/v1/volume/csi/v/create", `{"Volumes":[null]}`)
	f.Add("/v1/jobs?per_page=1&next_token=%00", "")
	h := handler(world())
	f.Fuzz(func(t *testing.T, target, body string) {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			r, err := http.NewRequest(method, "http://x", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if u, err := r.URL.Parse(target); err == nil {
				r.URL = u
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code >= 500 && w.Code != 501 && w.Code != 503 {
				t.Errorf("%s %s: code %d: %s", method, target, w.Code, w.Body)
			}
		}
	})
}

// What changes something is not sent to a second server when the first may have begun it; reads are.
func TestOnlyReadsMayBeRepeated(t *testing.T) {
	t.Parallel()
	c := newCluster()
	h := handler(c)
	send(h, http.MethodGet, "/v1/jobs", "")
	send(h, http.MethodPut, "/v1/job/web/dispatch", "{}")
	send(h, http.MethodDelete, "/v1/job/web", "")
	want := map[string]bool{wire.JobList.Name: false, wire.JobDispatch.Name: true, wire.JobDeregister.Name: true}
	for method, once := range want {
		if got, called := c.once[method]; !called || got != once {
			t.Errorf("%s: called %v, once %v, want %v", method, called, got, once)
		}
	}
}
