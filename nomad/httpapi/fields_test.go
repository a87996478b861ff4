package httpapi_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/nomad/httpapi"
)

var rewriteFields = flag.Bool("rewrite-fields", false, "write testdata/requests.tsv anew; what is taken in silence stays so until a reason is given")

// fieldsFile lists the query parameters and fields of bodies that clients of the compatible system send to endpoints of this
// version, except for those of jobs, with two values, and what becomes of each: done (the value makes a difference),
// refused, warned (the answer has a warning that names it), or harmless (it makes none, for the reason given).
const fieldsFile = "testdata/requests.tsv"

// field is a row of the list.
type field struct{ method, target, where, name, one, other, fate, reason string }

// bodies are what requests have beside the field that is tried, by method and path.
var bodies = map[string]string{
	"PUT /v1/jobs":                             `{"Job":{"ID":"web","Name":"web","Datacenters":["dc1"],"TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"raw_exec"}]}]}}`,
	"PUT /v1/job/web":                          `{"Job":{"ID":"web","Name":"web","Datacenters":["dc1"],"TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"raw_exec"}]}]}}`,
	"PUT /v1/job/web/plan":                     `{"Job":{"ID":"web","Name":"web","Datacenters":["dc1"],"TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"raw_exec"}]}]}}`,
	"PUT /v1/validate/job":                     `{"Job":{"ID":"web","Name":"web","Datacenters":["dc1"],"TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"raw_exec"}]}]}}`,
	"PUT /v1/jobs/parse":                       `{"JobHCL":"variable \"n\" {\n default = 1\n}\njob \"web\" {\n priority = var.n\n group \"g\" {\n task \"t\" {\n driver = \"raw_exec\"\n}\n}\n}\n"}`,
	"PUT /v1/job/web/evaluate":                 `{"JobID":"web"}`,
	"PUT /v1/job/web/dispatch":                 `{"JobID":"web"}`,
	"PUT /v1/job/web/revert":                   `{"JobID":"web","JobVersion":1}`,
	"PUT /v1/job/web/stable":                   `{"JobID":"web","JobVersion":1}`,
	"PUT /v1/job/web/scale":                    `{"Count":2,"Target":{"Group":"g"}}`,
	"PUT /v1/job/web/versions/gold/tag":        `{"Version":1}`,
	"PUT /v1/node/n1/drain":                    `{"DrainSpec":{"Deadline":1000}}`,
	"PUT /v1/node/n1/eligibility":              `{"Eligibility":"eligible"}`,
	"PUT /v1/node/pool/x":                      `{"Name":"x"}`,
	"PUT /v1/node/pools":                       `{"Name":"x"}`,
	"PUT /v1/namespace":                        `{"Name":"x"}`,
	"PUT /v1/namespace/x":                      `{"Name":"x"}`,
	"DELETE /v1/evaluations":                   `{"EvalIDs":["5fb01ed4-3c4f-1f2e-7d2b-7f9a4d1f1a01"]}`,
	"DELETE /v1/evaluations Filter":            `{}`,
	"PUT /v1/deployment/pause/d1":              `{"DeploymentID":"d1"}`,
	"PUT /v1/deployment/promote/d1":            `{"DeploymentID":"d1"}`,
	"PUT /v1/deployment/unblock/d1":            `{"DeploymentID":"d1"}`,
	"PUT /v1/deployment/allocation-health/d1":  `{"DeploymentID":"d1","HealthyAllocationIDs":["a1"]}`,
	"PUT /v1/volumes":                          `{"Volumes":[{"ID":"v1","Name":"v1","PluginID":"p"}]}`,
	"PUT /v1/volume/csi/v1":                    `{"Volumes":[{"ID":"v1","Name":"v1","PluginID":"p"}]}`,
	"PUT /v1/volume/csi/v1/create":             `{"Volumes":[{"ID":"v1","Name":"v1","PluginID":"p"}]}`,
	"PUT /v1/volumes/snapshot":                 `{"Snapshots":[{"Name":"s","SourceVolumeID":"v1","PluginID":"p"}]}`,
	"PUT /v1/client/allocation/a1/signal":      `{"Signal":"SIGHUP"}`,
	"PUT /v1/client/allocation/a1/pause":       `{"ScheduleState":"run"}`,
	"PUT /v1/search":                           `{"Prefix":"web","Context":"jobs"}`,
	"PUT /v1/search/fuzzy":                     `{"Text":"web","Context":"jobs"}`,
	"PUT /v1/jobs/statuses":                    `{"Jobs":[{"ID":"web","Namespace":"default"}]}`,
	"PUT /v1/client/metadata":                  `{"Meta":{"k":"v"}}`,
	"PUT /v1/operator/autopilot/configuration": `{}`,
	"PUT /v1/operator/scheduler/configuration": `{"SchedulerAlgorithm":"binpack"}`,
	"PUT /v1/agent/schedulers/config":          `{"num_schedulers":1,"enabled_schedulers":["service","batch","_core"]}`,
	"DELETE /v1/volumes/snapshot":              "",
}

// No field of a request is taken in silence: it makes a difference, or is refused, or named in a warning, or the list says
// why ignoring it does no harm.
func TestEveryFieldOfRequestsIsDoneOrRefusedOrHarmless(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(fieldsFile)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(cells) != 8 {
			t.Fatalf("%d cells: %q", len(cells), line)
		}
		f := field{cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6], cells[7]}
		got, why := f.try(t)
		if got == "silence" && f.fate == "harmless" && f.reason != "" {
			got = "harmless"
		}
		if got != f.fate && !*rewriteFields {
			t.Errorf("%s %s: %s %s is %s: %s; the list says %s", f.method, f.target, f.where, f.name, got, why, f.fate)
		}
		if got != "harmless" {
			f.reason = ""
		}
		fmt.Fprintln(&out, strings.Join([]string{f.method, f.target, f.where, f.name, f.one, f.other, got, f.reason}, "\t"))
	}
	if *rewriteFields {
		if err := os.WriteFile(fieldsFile, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// followed is how long a stream is read that does not end.
const followed = 100 * time.Millisecond

// result is what a request came to: the answer, and what servers and nodes were asked.
type result struct {
	code  int
	body  string
	ended bool // it is false of a stream that goes on
	asked map[string][]any
}

// crowded is the world with two rows in every list, e1 and e2.
func crowded() *cluster {
	c := world()
	meta := api.QueryMeta{Index: 7}
	rows := []string{"e1", "e2"}
	jobs, nodes := &api.JobListResponse{QueryMeta: meta}, &api.NodeListResponse{QueryMeta: meta}
	allocs, deployments := &api.AllocRowsResponse{QueryMeta: meta}, &api.DeploymentListResponse{QueryMeta: meta}
	pools, volumes := &api.NodePoolListResponse{QueryMeta: meta}, &api.VolumeListResponse{QueryMeta: meta}
	plugins := &api.PluginListResponse{QueryMeta: meta}
	for i, id := range rows {
		jobs.Jobs = append(jobs.Jobs, &api.JobStub{ID: id, Namespace: "default", NodePool: "x", Meta: map[string]string{"k": "v"}})
		nodes.Nodes = append(nodes.Nodes, &api.NodeStub{ID: id, NodePool: "x"})
		allocs.Allocs = append(allocs.Allocs, &api.Allocation{
			ID: id, Namespace: "default", CreateIndex: uint64(i), AllocatedResources: &api.AllocatedResources{},
			TaskStates: map[string]*api.TaskState{"t": {State: "running"}},
		})
		deployments.Deployments = append(deployments.Deployments, &api.Deployment{ID: id, Namespace: "default", CreateIndex: uint64(i)})
		pools.Pools = append(pools.Pools, &api.NodePool{Name: id})
		volumes.Volumes = append(volumes.Volumes, &api.VolumeStub{ID: id, Namespace: "default"})
		plugins.Plugins = append(plugins.Plugins, &api.PluginStub{ID: id})
	}
	on(c, wire.JobList, func(*api.JobListRequest) (*api.JobListResponse, error) { return jobs, nil })
	on(c, wire.NodeList, func(*api.NodeListRequest) (*api.NodeListResponse, error) { return nodes, nil })
	on(c, wire.AllocList, func(*api.AllocListRequest) (*api.AllocRowsResponse, error) { return allocs, nil })
	on(c, wire.DeploymentList, func(*api.QueryOptions) (*api.DeploymentListResponse, error) { return deployments, nil })
	on(c, wire.NodePoolList, func(*api.QueryOptions) (*api.NodePoolListResponse, error) { return pools, nil })
	on(c, wire.VolumeList, func(*api.VolumeListRequest) (*api.VolumeListResponse, error) { return volumes, nil })
	on(c, wire.PluginList, func(*api.PluginListRequest) (*api.PluginListResponse, error) { return plugins, nil })
	on(c, wire.ClientAllocChecks, func(*api.AllocRequest) (*api.AllocChecksResponse, error) { return &api.AllocChecksResponse{}, nil })
	on(c, wire.ClientAllocStats, func(*api.AllocRequest) (*api.AllocStatsResponse, error) {
		return &api.AllocStatsResponse{Stats: &api.AllocResourceUsage{Tasks: map[string]*api.TaskResourceUsage{"va": {}}}}, nil
	})
	return c
}

// agentOf is the handler of an agent that is a server and a client of the cluster.
func agentOf(c *cluster) http.Handler {
	return httpapi.New(httpapi.Config{
		Servers: c, Node: func(string) (wire.Caller, error) { return c, nil }, LocalNodeID: func() string { return "n1" },
		Self:    func() *api.AgentSelf { return &api.AgentSelf{} },
		Metrics: measured(metrics.Config{NoHost: true}),
		Health: func(context.Context) *api.AgentHealthResponse {
			return &api.AgentHealthResponse{Client: &api.AgentHealth{Ok: true}, Server: &api.AgentHealth{Ok: true}}
		},
		SetServerAddresses: func(addresses []string) error {
			c.asked["addresses"] = append(c.asked["addresses"], addresses)
			return nil
		},
		Schedulers: &crew{2, []string{"service", "batch"}},
		Name:       "s1", Region: "global", Datacenter: "dc1",
	})
}

// try makes the request with both values.
func (f field) try(t *testing.T) (fate, why string) {
	t.Helper()
	var results []result
	for _, value := range []string{f.one, f.other} {
		c := crowded()
		target, body := f.target, bodies[f.method+" "+f.target]
		if alone, ok := bodies[f.method+" "+f.target+" "+f.name]; ok {
			body = alone
		}
		if f.where == "query" {
			separator := "?"
			if strings.Contains(target, "?") {
				separator = "&"
			}
			target += separator + url.Values{f.name: {value}}.Encode()
		} else {
			body = f.in(t, body, value)
		}
		w, ended := httptest.NewRecorder(), false
		synctest.Test(t, func(t *testing.T) { // the time of streams passes while they wait, and not while others compute
			ctx, cancel := context.WithTimeout(t.Context(), followed)
			defer cancel()
			agentOf(c).ServeHTTP(w, httptest.NewRequestWithContext(ctx, f.method, target, strings.NewReader(body)))
			ended = ctx.Err() == nil
		})
		if said := w.Body.String(); w.Code >= 400 && strings.Contains(said, "not in this version") {
			return "refused", said
		} else if strings.Contains(said, `"Warnings"`) && strings.Contains(said, f.name[strings.LastIndex(f.name, ".")+1:]+" ") {
			return "warned", said
		}
		results = append(results, result{w.Code, w.Body.String(), ended, c.asked})
	}
	switch one := results[0]; {
	case !reflect.DeepEqual(one, results[1]):
		return "done", ""
	case one.code >= 400 && f.where == "body":
		return "an error with both values", one.body
	default:
		return "silence", fmt.Sprintf("with both values it is %d %.200s", one.code, one.body)
	}
}

// in is the body with the field set to the value, a JSON text.
func (f field) in(t *testing.T, body, value string) string {
	t.Helper()
	var whole any
	if body == "" {
		body = "{}"
	}
	if err := json.Unmarshal([]byte(body), &whole); err != nil {
		t.Fatalf("%s %s: %v", f.method, f.target, err)
	}
	text, err := json.Marshal(with(whole, strings.Split(f.name, "."), json.RawMessage(value)))
	if err != nil {
		t.Fatalf("%s %s: %s: %v", f.method, f.target, f.name, err)
	}
	return string(text)
}

// with is v with a value put at a path of keys and indexes.
func with(v any, path []string, value json.RawMessage) any {
	if len(path) == 0 {
		return value
	}
	if i, err := strconv.Atoi(path[0]); err == nil {
		list, _ := v.([]any)
		for len(list) <= i {
			list = append(list, nil)
		}
		list[i] = with(list[i], path[1:], value)
		return list
	}
	object, _ := v.(map[string]any)
	if object == nil {
		object = map[string]any{}
	}
	object[path[0]] = with(object[path[0]], path[1:], value)
	return object
}

// Region and namespace of a body count where the query has none; the query wins.
func TestNamespaceOfTheBodyCounts(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"/v1/deployment/pause/d1":                 "body",
		"/v1/deployment/pause/d1?namespace=query": "query",
	} {
		c := world()
		expect(t, send(handler(c), "PUT", target, `{"DeploymentID":"d1","Namespace":"body","Region":"north"}`), 200, "")
		if got := last(t, c, wire.DeploymentPause); got.Namespace != want || got.Region != "north" {
			t.Errorf("%s: namespace %q in region %q", target, got.Namespace, got.Region)
		}
	}
}

func TestGlobalStopOfAJobIsABoolean(t *testing.T) {
	t.Parallel()
	c := world()
	expect(t, send(handler(c), "DELETE", "/v1/job/web?global=bad", ""), 400, "global")
	if len(c.asked) > 0 {
		t.Errorf("the servers were asked: %v", c.methods())
	}
	expect(t, send(handler(c), "DELETE", "/v1/job/web?global=true", ""), 200, "")
}
