package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi"
)

// value is what an answer has at a path of keys, and whether it is there. A 0 is the first of a list.
func value(t *testing.T, h http.Handler, target, path string) (any, bool) {
	t.Helper()
	var v any
	decode(t, send(h, "GET", target, ""), &v)
	for _, key := range strings.Split(path, ".") {
		if all, ok := v.([]any); ok && key == "0" && len(all) > 0 {
			v = all[0]
			continue
		}
		object, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = object[key]; !ok {
			return nil, false
		}
	}
	return v, true
}

func objects() *cluster {
	c := newCluster()
	a := &api.Allocation{
		ID: "a1", TaskGroup: "g", DesiredTransition: api.DesiredTransition{Migrate: true},
		Job:                &api.Job{ID: "web", TaskGroups: []*api.TaskGroup{{Name: "g", MaxRunDuration: time.Hour, Tasks: []*api.Task{{Name: "t", LogConfig: &api.LogConfig{}, Templates: []*api.Template{{}}}, {Name: "pre", Lifecycle: &api.TaskLifecycle{Hook: "prestart"}}}, Disconnect: &api.DisconnectStrategy{LostAfter: 1}}}},
		AllocatedResources: &api.AllocatedResources{Tasks: map[string]*api.AllocatedTaskResources{"t": {}, "pre": {}}},
		TaskStates:         map[string]*api.TaskState{"t": {State: "running", StartedAt: time.Unix(1, 0).UTC()}},
	}
	stub := &api.AllocStub{ID: "a1", Namespace: "default", JobID: "plug", TaskStates: a.TaskStates}
	on(c, wire.AllocGet, func(*api.AllocRequest) (*api.AllocGetResponse, error) { return &api.AllocGetResponse{Alloc: a}, nil })
	on(c, wire.AllocList, func(*api.AllocListRequest) (*api.AllocRowsResponse, error) {
		return &api.AllocRowsResponse{Allocs: []*api.Allocation{a}}, nil
	})
	on(c, wire.JobAllocations, func(*api.JobRequest) (*api.AllocListResponse, error) {
		return &api.AllocListResponse{Allocs: []*api.AllocStub{stub}}, nil
	})
	on(c, wire.JobGet, func(*api.JobRequest) (*api.JobGetResponse, error) { return &api.JobGetResponse{Job: a.Job}, nil })
	on(c, wire.JobVersions, func(*api.JobVersionsRequest) (*api.JobVersionsResponse, error) {
		return &api.JobVersionsResponse{Versions: []*api.Job{a.Job}}, nil
	})
	on(c, wire.JobSubmission, func(*api.JobRequest) (*api.JobSubmissionResponse, error) {
		return &api.JobSubmissionResponse{Submission: &api.JobSubmission{Source: "x"}, JobModifyIndex: 9}, nil
	})
	on(c, wire.NodeGet, func(*api.NodeRequest) (*api.NodeGetResponse, error) {
		return &api.NodeGetResponse{Node: &api.Node{ID: "n1"}}, nil
	})
	on(c, wire.NodePoolGet, func(*api.NameRequest) (*api.NodePoolGetResponse, error) {
		return &api.NodePoolGetResponse{Pool: &api.NodePool{Name: "p"}}, nil
	})
	on(c, wire.EvalGet, func(*api.EvalRequest) (*api.EvalGetResponse, error) {
		return &api.EvalGetResponse{Eval: &api.Evaluation{ID: "e1"}}, nil
	})
	on(c, wire.PluginGet, func(*api.PluginGetRequest) (*api.PluginGetResponse, error) {
		return &api.PluginGetResponse{Plugin: &api.Plugin{
			ID: "p1", Nodes: map[string]*api.CSIInfo{"n1": {AllocID: "a1"}}, NodesExpected: 3, Allocations: []*api.AllocStub{stub},
		}}, nil
	})
	on(c, wire.ClientNodeStats, func(*api.NodeRequest) (*api.NodeStatsResponse, error) {
		return &api.NodeStatsResponse{Stats: &api.HostStats{Timestamp: 5}}, nil
	})
	on(c, wire.ClientAllocChecks, func(*api.AllocRequest) (*api.AllocChecksResponse, error) { return &api.AllocChecksResponse{}, nil })
	on(c, wire.ClientAllocStats, func(*api.AllocRequest) (*api.AllocStatsResponse, error) {
		return &api.AllocStatsResponse{Stats: &api.AllocResourceUsage{
			ResourceUsage: &api.ResourceUsage{MemoryStats: &api.MemoryStats{}}, Tasks: map[string]*api.TaskResourceUsage{"t": {ResourceUsage: &api.ResourceUsage{}}},
		}}, nil
	})
	on(c, wire.ScalingPolicyList, func(*api.ScalingPolicyListRequest) (*api.ScalingPolicyListResponse, error) {
		return &api.ScalingPolicyListResponse{Policies: []*api.ScalingPolicy{{ID: "cd"}}}, nil
	})
	return c
}

// Programs ask for keys: one that is missing, or 0 where nothing was said, is another answer than null.
func TestAnswersHaveTheKeysAndNullsThatClientsKnow(t *testing.T) {
	t.Parallel()
	h := handler(objects())
	for _, c := range []struct {
		target, path string
		want         any
	}{
		{"/v1/job/web", "TaskGroups.0.MaxRunDuration", float64(time.Hour)},
		{"/v1/job/web", "TaskGroups.0.ShutdownDelay", nil},
		{"/v1/job/web", "Update.MaxParallel", 0.0},
		{"/v1/job/web/versions", "Versions.0.Update.MaxParallel", 0.0},
		{"/v1/allocation/a1", "Job.Update.MaxParallel", 0.0},
		{"/v1/job/web", "TaskGroups.0.StopAfterClientDisconnect", nil},
		{"/v1/job/web", "TaskGroups.0.MaxClientDisconnect", nil},
		{"/v1/job/web", "TaskGroups.0.Disconnect.LostAfter", 1.0},
		{"/v1/job/web", "TaskGroups.0.Disconnect.StopOnClientAfter", nil},
		{"/v1/job/web", "TaskGroups.0.Tasks.0.Templates.0.Uid", nil},
		{"/v1/job/web", "TaskGroups.0.Tasks.0.LogConfig.Enabled", nil},
		{"/v1/job/web", "TaskGroups.0.Tasks.0.CSIPluginConfig", nil},
		{"/v1/job/web/submission?version=2", "Version", 2.0},
		{"/v1/job/web/submission?version=2", "JobID", "web"},
		{"/v1/job/web/submission?version=2", "Namespace", "default"},
		{"/v1/job/web/submission?version=2", "JobModifyIndex", 9.0},
		{"/v1/allocation/a1", "NetworkStatus.Address", ""},
		{"/v1/allocation/a1", "SigningKeyID", ""},
		{"/v1/allocation/a1", "DesiredTransition.Migrate", true},
		{"/v1/allocation/a1", "DesiredTransition.Reschedule", nil},
		{"/v1/allocation/a1", "TaskStates.t.FinishedAt", nil},
		{"/v1/allocation/a1", "TaskStates.t.StartedAt", "1970-01-01T00:00:01Z"},
		{"/v1/allocation/a1", "AllocatedResources.TaskLifecycles.t", nil},
		{"/v1/allocation/a1", "AllocatedResources.TaskLifecycles.pre.Hook", "prestart"},
		{"/v1/allocations?resources=true", "0.AllocatedResources.TaskLifecycles.pre.Hook", "prestart"},
		{"/v1/allocations", "0.DesiredTransition.Migrate", true},
		{"/v1/allocations", "0.TaskStates.t.LastRestart", nil},
		{"/v1/job/web/allocations", "0.DesiredTransition.Migrate", nil},
		{"/v1/job/web/allocations", "0.TaskStates.t.FinishedAt", nil},
		{"/v1/node/n1", "Links", nil},
		{"/v1/node/n1", "IdentitySigningKeyID", ""},
		{"/v1/node/n1", "SecretID", ""},
		{"/v1/node/pool/p", "NodeIdentityTTL", float64(24 * time.Hour)},
		{"/v1/plugin/csi/p1", "NodeJobs.default.plug.Expected", 3.0},
		{"/v1/client/stats?node_id=n1", "DeviceStats", nil},
		{"/v1/client/stats?node_id=n1", "Timestamp", 5.0},
		{"/v1/client/allocation/a1/stats", "ResourceUsage.MemoryStats.MappedFile", 0.0},
		{"/v1/client/allocation/a1/stats", "Tasks.t.ResourceUsage.DeviceStats", nil},
		{"/v1/scaling/policies", "0.ID", "cd"},
		{"/v1/volumes/external?plugin_id=p", "KnownLeader", false},
		{"/v1/volumes/snapshot?plugin_id=p", "LastContact", 0.0},
	} {
		if got, ok := value(t, h, c.target, c.path); !ok || got != c.want {
			t.Errorf("GET %s: %s is %v (there: %v), want %v", c.target, c.path, got, ok, c.want)
		}
	}
	for _, key := range []string{"Wait", "WaitUntil", "FailedTGAllocs"} {
		if got, ok := value(t, h, "/v1/evaluation/e1", key); ok {
			t.Errorf("an evaluation says %s: %v", key, got)
		}
	}
	if got := send(h, "GET", "/v1/volumes/external?plugin_id=p", "").Header().Get("X-Nomad-Index"); got != "0" {
		t.Errorf("index of what a provider says: %q", got)
	}
}

func TestVolumesThatCannotBeAreNotAnswered(t *testing.T) {
	t.Parallel()
	h := handler(newCluster())
	expect(t, send(h, "PUT", "/v1/volume/host/create", "{}"), 400, "missing volume definition")
	expect(t, send(h, "DELETE", "/v1/volume/host/x?force=maybe", ""), 400, "force")
	// A verb that there is not is not a part of the id.
	expect(t, send(h, "PUT", "/v1/volume/csi/x/foo", `{"Volumes": [{"ID": "x"}]}`), 404, "resource not found")
	expect(t, send(h, "PUT", "/v1/volume/csi/x%2Ffoo", `{"Volumes": [{"ID": "x/foo"}]}`), 200, "")
	expect(t, send(h, "PUT", "/v1/volume/csi/x", `{"Volumes": [{"ID": "x"}]}`), 200, "")
}

func TestHashOfAPoolChangesWithWhatItSays(t *testing.T) {
	t.Parallel()
	hash := func(p api.NodePool) any {
		c := newCluster()
		on(c, wire.NodePoolGet, func(*api.NameRequest) (*api.NodePoolGetResponse, error) {
			return &api.NodePoolGetResponse{Pool: &p}, nil
		})
		v, _ := value(t, handler(c), "/v1/node/pool/p", "Hash")
		return v
	}
	one := hash(api.NodePool{Name: "p"})
	if one == "" || one != hash(api.NodePool{Name: "p", ModifyIndex: 7}) || one == hash(api.NodePool{Name: "p", Description: "d"}) {
		t.Errorf("hash %v", one)
	}
}

func TestPlanSaysNullOfWhatWouldNotBe(t *testing.T) {
	t.Parallel()
	c := newCluster()
	on(c, wire.JobPlan, func(*api.JobPlanRequest) (*api.JobPlanResponse, error) {
		return &api.JobPlanResponse{FailedTGAllocs: map[string]*api.AllocationMetric{}}, nil
	})
	var got map[string]any
	decode(t, send(handler(c), "PUT", "/v1/job/web/plan", `{"Job": {"ID": "web"}}`), &got)
	if got["FailedTGAllocs"] != nil || got["NextPeriodicLaunch"] != nil {
		t.Errorf("%v", got)
	}
}

// Scripts put a slash too many behind an address; proxies and browsers ask for / and /ui/.
func TestUncleanPathsAreSentOn(t *testing.T) {
	t.Parallel()
	h := handler(objects())
	for target, want := range map[string]string{
		"//v1/jobs": "/v1/jobs", "/v1//jobs?prefix=a%2Fb": "/v1/jobs?prefix=a%2Fb", "/v1/./jobs": "/v1/jobs", "/v1/x/../jobs": "/v1/jobs",
		"/v1/job/web//allocations": "/v1/job/web/allocations", "/v1/job/a%2F%2Fb//plan": "/v1/job/a%2F%2Fb/plan",
		"//evil.example/..//x": "/x", "/": "/ui/", "/?a=b": "/ui/?a=b",
		"/v1/job": "/v1/job/", "/v1/volume/csi?x=y": "/v1/volume/csi/?x=y",
	} {
		r := httptest.NewRequest("GET", "http://h"+target, nil)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Location"); w.Code != 307 || got != want {
			t.Errorf("%s: %d to %q, want %q", target, w.Code, got, want)
		}
	}
	for _, target := range []string{"/v1/job/", "/v1/jobb"} {
		expect(t, send(h, "GET", target, ""), 404, "there is no such endpoint")
	}
	for _, target := range []string{"/v1/job/a%2F%2Fb", "/v1/jobs"} {
		if w := send(h, "GET", target, ""); w.Code != 200 {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
}

func TestPagesAreServedWhereTheyAreEnabled(t *testing.T) {
	t.Parallel()
	pages := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.Path)) })
	on, off := httpapi.New(httpapi.Config{Servers: world(), UI: pages, Region: "global"}), httpapi.New(httpapi.Config{Servers: world()})
	for _, target := range []string{"/ui", "/ui/", "/ui/jobs/x@default", "/ui/jobs?region=other"} {
		if w := send(on, "GET", target, ""); w.Code != 200 || !strings.HasPrefix(target, w.Body.String()) {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
		expect(t, send(off, "GET", target, ""), 404, "ui.enabled")
	}
}

func TestWhatIsNotInThisVersionIsSaid(t *testing.T) {
	t.Parallel()
	h := handler(objects())
	for _, target := range []string{"/v1/client/allocation/a1/snapshot"} {
		expect(t, send(h, "GET", target, ""), 501, "not in this version")
	}
	expect(t, send(h, "GET", "/v1/sentinel/policies", ""), 501, "Nomad Enterprise only endpoint")
	expect(t, send(h, "PUT", "/v1/operator/license", "x"), 501, "Nomad Enterprise only endpoint")
	expect(t, send(h, "GET", "/v1/operator/license", ""), 204, "")
	expect(t, send(h, "GET", "/v1/job/web/actions", ""), 200, "[]")
	expect(t, send(h, "GET", "/v1/client/allocation/a1/checks", ""), 200, "{}")
	expect(t, send(handler(newCluster()), "GET", "/v1/job/web/actions", ""), 404, "job not found")
	expect(t, send(handler(newCluster()), "GET", "/v1/allocation/a1/checks", ""), 404, "alloc not found")
}

func TestPagesOfOtherSitesReadFromNodesOnly(t *testing.T) {
	t.Parallel()
	h := handler(objects())
	origin := func(w interface{ Header() http.Header }) string { return w.Header().Get("Access-Control-Allow-Origin") }
	if w := send(h, "GET", "/v1/client/stats?node_id=n1", "", "Origin", "http://ui"); w.Code != 200 || origin(w) != "*" {
		t.Errorf("stats: %d %v", w.Code, w.Header())
	}
	w := send(h, "OPTIONS", "/v1/client/fs/logs/a1", "", "Origin", "http://ui", "Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "x-nomad-token")
	if w.Code != 204 || origin(w) != "*" || w.Header().Get("Access-Control-Allow-Headers") != "x-nomad-token" {
		t.Errorf("logs: %d %v", w.Code, w.Header())
	}
	for _, c := range [][2]string{{"GET", "/v1/jobs"}, {"PUT", "/v1/client/allocation/a1/restart"}, {"GET", "/v1/agent/self"}} {
		if w := send(h, c[0], c[1], "{}", "Origin", "http://ui"); origin(w) != "" {
			t.Errorf("%s %s may be read by pages of others: %v", c[0], c[1], w.Header())
		}
	}
	w = send(h, "OPTIONS", "/v1/client/allocation/a1/restart", "", "Origin", "http://ui", "Access-Control-Request-Method", "PUT")
	if w.Code == 204 || origin(w) != "" {
		t.Errorf("a write: %d %v", w.Code, w.Header())
	}
}

func TestRequestsThatSayNothingAreRefused(t *testing.T) {
	t.Parallel()
	h := handler(objects())
	expect(t, send(h, "PUT", "/v1/job/web/evaluate", `{}`), 400, "Job ID must be specified")
	expect(t, send(h, "PUT", "/v1/job/web/evaluate", `{"JobID": "other"}`), 400, "JobID not same as job name")
	expect(t, send(h, "PUT", "/v1/job/web/evaluate", ``), 200, "")
}
