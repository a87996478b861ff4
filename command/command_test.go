package command_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command"
)

// answer is what the fake agent says to one request: a value, or an *refusal.
type refusal struct {
	code int
	text string
}

// agent answers requests, "METHOD path" without query, from a table and remembers them.
type agent struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]any
	asked   []string
	bodies  map[string]string
}

func newAgent(t *testing.T, answers map[string]any) *agent {
	t.Helper()
	a := &agent{answers: answers, bodies: map[string]string{}}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	key := r.Method + " " + r.URL.EscapedPath()
	a.mu.Lock()
	a.asked = append(a.asked, key+"?"+r.URL.RawQuery)
	a.bodies[key] = string(body)
	out, ok := a.answers[key]
	if r.URL.Query().Get("type") == api.VolumeTypeHost && r.Method == http.MethodGet { // at the path of CSI volumes
		if out, ok = a.answers[key+"?type=host"]; !ok {
			out, ok = []*api.HostVolumeStub{}, true
		}
	}
	a.mu.Unlock()
	if steps, is := out.([]any); is && len(steps) > 0 {
		a.mu.Lock()
		out = steps[0]
		if len(steps) > 1 {
			a.answers[key] = steps[1:]
		}
		a.mu.Unlock()
	}
	switch x := out.(type) {
	case *refusal:
		http.Error(w, x.text, x.code)
	case string:
		_, _ = io.WriteString(w, x)
	default:
		if !ok {
			http.Error(w, "nothing at "+key, http.StatusNotFound)
			return
		}
		w.Header().Set("X-Nomad-Index", "7")
		_ = json.NewEncoder(w).Encode(x)
	}
}

// outcome is what a command did.
type outcome struct {
	code     int
	out, err string
}

func run(t *testing.T, a *agent, input string, args ...string) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	root := command.New(&cli.Command{Name: "extra", Usage: "an extra command", Action: func(context.Context, *cli.Command) error { return nil }})
	root.Writer, root.ErrWriter, root.Reader = &out, &errs, strings.NewReader(input)
	if a != nil {
		args = append(args, "-address", a.URL)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	code := command.Run(ctx, root, append([]string{"nomad"}, args...))
	return outcome{code, out.String(), errs.String()}
}

func (o outcome) want(t *testing.T, code int, texts ...string) {
	t.Helper()
	if o.code != code {
		t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", o.code, code, o.out, o.err)
	}
	for _, text := range texts {
		if !strings.Contains(o.out+o.err, text) {
			t.Errorf("no %q in\nstdout: %s\nstderr: %s", text, o.out, o.err)
		}
	}
}

func TestExitCodesOfUse(t *testing.T) {
	for _, x := range []struct {
		args string
		code int
		text string
	}{
		{"", 127, "Commands:"},
		{"bogus", 127, `"bogus"`},
		{"-bogus", 127, "not defined"},
		{"job", 0, "Usage: nomad job"},
		{"job bogus", 1, `"nomad job bogus"`},
		{"job run", 1, "one argument"},
		{"job run a b", 1, "one argument"},
		{"job run -bogus a", 1, "not defined: -bogus"},
		{"job run -h", 0, "-check-index <index>"},
		{"job run x -help", 0, "-detach"},
		{"job plan", 255, "one argument"},
		{"job validate", 255, "one argument"},
		{"volume detach v", 1, "2 arguments"},
		{"job status -json -t x", 1, "only one"},
		{"extra -h", 0, "An extra command"},
		{"extra", 0, ""},
		{"-version", 0, "Nomad v2.0.0\nopen-nomad v"},
		{"-v", 0, "Nomad v2.0.0\nopen-nomad v"},
		{"version", 0, "Nomad v2.0.0\nopen-nomad v"},
	} {
		run(t, nil, "", strings.Fields(x.args)...).want(t, x.code, x.text)
	}
}

func TestHelpSpellsFlagsWithOneDash(t *testing.T) {
	if o := run(t, nil, "", "volume", "status", "-h"); strings.Contains(o.out, "--") {
		t.Errorf("two dashes in: %s", o.out)
	}
}

func jobs(ids ...string) []*api.JobStub {
	var list []*api.JobStub
	for _, id := range ids {
		list = append(list, &api.JobStub{ID: id, Name: id, Namespace: "default", Type: "service", Priority: 50, Status: "running", SubmitTime: 1})
	}
	return list
}

func TestFlagsMayStandAnywhere(t *testing.T) {
	for _, args := range []string{"-json -namespace team web", "-namespace=team -json web", "web -json -namespace=team", "--json --namespace team web"} {
		a := newAgent(t, map[string]any{"GET /v1/jobs": jobs("web"), "GET /v1/job/web": &api.Job{ID: "web"}})
		run(t, a, "", append([]string{"job", "inspect"}, strings.Fields(args)...)...).want(t, 0, `"ID": "web"`)
		if !strings.Contains(a.asked[0], "namespace=team") {
			t.Errorf("%s: asked %v", args, a.asked)
		}
	}
}

func TestExactIDWinsOverPrefix(t *testing.T) {
	a := newAgent(t, map[string]any{"GET /v1/jobs": jobs("web", "web-2"), "GET /v1/job/web": &api.Job{ID: "web", Name: "exact"}})
	run(t, a, "", "job", "status", "-short", "web").want(t, 0, "exact")
}

func TestJobStatusInJSONHasTheAllocations(t *testing.T) {
	a := newAgent(t, map[string]any{
		"GET /v1/jobs": jobs("web"), "GET /v1/job/web": &api.Job{ID: "web"}, "GET /v1/job/web/summary": &api.JobSummary{},
		"GET /v1/job/web/allocations": []*api.AllocStub{{ID: "a1"}}, "GET /v1/job/web/deployment": (*api.Deployment)(nil), "GET /v1/job/web/evaluations": []*api.Evaluation{},
	})
	run(t, a, "", "job", "status", "-json", "web").want(t, 0, `"ID": "a1"`)
}

func TestAmbiguousPrefixListsCandidates(t *testing.T) {
	a := newAgent(t, map[string]any{"GET /v1/jobs": jobs("web-1", "web-2")})
	o := run(t, a, "", "job", "status", "web")
	o.want(t, 1, "matched multiple", "web-1", "web-2")
	if o.out != "" {
		t.Errorf("an error went to stdout: %s", o.out)
	}
}

func TestUnknownJob(t *testing.T) {
	a := newAgent(t, map[string]any{"GET /v1/jobs": []*api.JobStub{}})
	run(t, a, "", "job", "status", "nope").want(t, 1, `"nope"`)
}

func TestRefusalGoesToStderr(t *testing.T) {
	a := newAgent(t, map[string]any{"GET /v1/jobs": &refusal{403, "Permission denied"}})
	o := run(t, a, "", "job", "status")
	o.want(t, 1, "Error querying jobs: Unexpected response code: 403 (Permission denied)")
	if o.out != "" {
		t.Errorf("an error went to stdout: %s", o.out)
	}
}

func TestTemplate(t *testing.T) {
	a := newAgent(t, map[string]any{"GET /v1/jobs": jobs("a", "b")})
	if o := run(t, a, "", "status", "-t", "{{range .}}{{.ID}};{{end}}"); o.out != "a;b;\n" {
		t.Errorf("got %q, %q", o.out, o.err)
	}
	run(t, a, "", "status", "-t", "{{.Nope").want(t, 1, "template")
}

func stopAnswers(last *api.Evaluation) map[string]any {
	pending := &api.Evaluation{ID: "e1111111-0000", Status: "pending", JobID: "web"}
	return map[string]any{
		"GET /v1/jobs":                                 jobs("web"),
		"DELETE /v1/job/web":                           &api.JobRegisterResponse{EvalID: "e1111111-0000"},
		"GET /v1/evaluation/e1111111-0000":             []any{pending, last},
		"GET /v1/evaluation/e1111111-0000/allocations": []*api.AllocStub{{ID: "a2222222-0000", NodeID: "n3333333-0000", TaskGroup: "g", ClientStatus: "running", EvalID: "e1111111-0000"}},
	}
}

func TestMonitorFollowsTheEvaluation(t *testing.T) {
	a := newAgent(t, stopAnswers(&api.Evaluation{ID: "e1111111-0000", Status: "complete", JobID: "web"}))
	run(t, a, "", "job", "stop", "-purge", "web").want(t, 0,
		`Monitoring evaluation "e1111111"`, `Evaluation triggered by job "web"`,
		`Allocation "a2222222" created: node "n3333333", group "g"`, `Allocation "a2222222" status changed: "pending" -> "running"`,
		`Evaluation status changed: "pending" -> "complete"`, `Evaluation "e1111111" finished with status "complete"`)
	if !strings.Contains(a.asked[1], "purge=true") {
		t.Errorf("asked %v", a.asked)
	}
}

func TestMonitorTellsNewFromModifiedAllocations(t *testing.T) {
	answers := stopAnswers(&api.Evaluation{ID: "e1111111-0000", Status: "complete", JobID: "web", CreateIndex: 9})
	answers["GET /v1/evaluation/e1111111-0000"] = &api.Evaluation{ID: "e1111111-0000", Status: "complete", JobID: "web", CreateIndex: 9}
	answers["GET /v1/evaluation/e1111111-0000/allocations"] = []*api.AllocStub{
		{ID: "old", ClientStatus: "running", EvalID: "e1111111-0000", CreateIndex: 5}, {ID: "new", ClientStatus: "running", EvalID: "e1111111-0000", CreateIndex: 10},
	}
	o := run(t, newAgent(t, answers), "", "job", "stop", "web")
	o.want(t, 0, `Allocation "old" modified`, `Allocation "new" created`, `Allocation "new" status changed`)
	if strings.Contains(o.out, `"old" status changed`) {
		t.Errorf("an old allocation became running: %s", o.out)
	}
}

func TestMonitorExitsTwoWhenSomethingIsNotPlaced(t *testing.T) {
	a := newAgent(t, stopAnswers(&api.Evaluation{
		ID: "e1111111-0000", Status: "complete", JobID: "web", BlockedEval: "b4444444-0000",
		FailedTGAllocs: map[string]*api.AllocationMetric{"g": {
			NodesEvaluated: 1, CoalescedFailures: 1,
			ConstraintFiltered: map[string]int{"missing CSI Volume v1": 1}, DimensionExhausted: map[string]int{"memory": 2},
		}},
	}))
	run(t, a, "", "stop", "web").want(t, 2, "failed to place 2 allocations", `Constraint "missing CSI Volume v1": 1 node excluded`,
		`Dimension "memory" exhausted on 2 nodes`, `"b4444444" waiting for additional capacity`)
}

func TestDetachSkipsTheMonitor(t *testing.T) {
	a := newAgent(t, stopAnswers(nil))
	if o := run(t, a, "", "job", "stop", "-detach", "web"); o.out != "e1111111-0000\n" {
		t.Errorf("got %q, %q", o.out, o.err)
	}
}

func TestStopByPrefixAsks(t *testing.T) {
	a := newAgent(t, stopAnswers(nil))
	run(t, a, "n\n", "job", "stop", "we").want(t, 0, "Are you sure", "Cancelling")
	for _, line := range a.asked {
		if strings.HasPrefix(line, "DELETE") {
			t.Error("the job was stopped")
		}
	}
}

func TestRunDetached(t *testing.T) {
	a := newAgent(t, map[string]any{"PUT /v1/jobs": &api.JobRegisterResponse{EvalID: "e1", Warnings: "1 warning:\n\n* be careful"}})
	file := filepath.Join(t.TempDir(), "j.json")
	if err := os.WriteFile(file, []byte(`{"Job":{"ID":"web","Name":"web"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, a, "", "job", "run", "-json", "-detach", "-check-index", "7", file).want(t, 0, "Job registration successful\nEvaluation ID: e1\n", "be careful")
	var req api.JobRegisterRequest
	if err := json.Unmarshal([]byte(a.bodies["PUT /v1/jobs"]), &req); err != nil {
		t.Fatal(err)
	}
	if !req.EnforceIndex || req.JobModifyIndex != 7 || req.Job.Namespace != "default" || req.Submission.Format != "json" {
		t.Errorf("request %+v", req)
	}
	run(t, a, "", "run", "-json", "-check-index", "x", file).want(t, 1, "not an index")
	run(t, a, "", "run", filepath.Join(t.TempDir(), "none.hcl")).want(t, 1, "Error getting job struct: open ", "none.hcl")
	run(t, a, "", "job", "run", "-json", "-detach", "-vault-namespace", "v", "-consul-namespace", "c", file).want(t, 0)
	if err := json.Unmarshal([]byte(a.bodies["PUT /v1/jobs"]), &req); err != nil || req.Job.VaultNamespace != "v" || req.Job.ConsulNamespace != "c" {
		t.Errorf("request %+v %v", req.Job, err)
	}
}

func TestRunTellsTheNextLaunch(t *testing.T) {
	a := newAgent(t, map[string]any{"PUT /v1/jobs": &api.JobRegisterResponse{}})
	file := filepath.Join(t.TempDir(), "j.json")
	if err := os.WriteFile(file, []byte(`{"ID":"web","Type":"batch","Periodic":{"Enabled":true,"Specs":["*/5 * * * *"],"TimeZone":"UTC"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, a, "", "job", "run", "-json", file).want(t, 0, "Job registration successful\nNext launch: ", "(in ")
}

func TestPlanExitCodes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "j.json")
	if err := os.WriteFile(file, []byte(`{"ID":"web"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	edited := &api.JobDiff{Type: "Edited", ID: "web", TaskGroups: []*api.TaskGroupDiff{{
		Type: "Edited", Name: "g", Updates: map[string]uint64{"create/destroy update": 1, "ignore": 1},
		Fields: []*api.FieldDiff{{Type: "Edited", Name: "Count", Old: "1", New: "2"}},
		Tasks: []*api.TaskDiff{{
			Type: "Edited", Name: "t", Annotations: []string{"forces create/destroy update"},
			Objects: []*api.ObjectDiff{{Type: "Added", Name: "Resources", Fields: []*api.FieldDiff{{Type: "Added", Name: "CPU", New: "50"}}}},
		}},
	}}}
	for _, x := range []struct {
		answer any
		code   int
		texts  []string
	}{
		{&api.JobPlanResponse{Diff: &api.JobDiff{Type: "None", ID: "web"}}, 0, []string{"All tasks successfully allocated"}},
		{&api.JobPlanResponse{Diff: edited, JobModifyIndex: 62}, 1, []string{
			`+/- Job: "web"`, `+/- Task Group: "g" (1 create/destroy update, 1 ignore)`, `+/- Count: "1" => "2"`,
			`+/- Task: "t" (forces create/destroy update)`, `+   CPU: "50"`, "Job Modify Index: 62", "nomad job run -check-index 62 -json " + file,
		}},
		{&refusal{400, "bad job"}, 255, []string{"bad job"}},
	} {
		a := newAgent(t, map[string]any{"PUT /v1/job/web/plan": x.answer})
		run(t, a, "", "job", "plan", "-json", file).want(t, x.code, x.texts...)
	}
}

func TestVolumeStatusShowsWhoHoldsIt(t *testing.T) {
	now := time.Now()
	v := &api.VolumeDetail{
		Volume: api.Volume{VolumeSpec: api.VolumeSpec{
			ID: "v1", Name: "v1", Namespace: "team", PluginID: "hostpath",
			RequestedCapabilities: []*api.VolumeCapability{{AccessMode: "single-node-writer", AttachmentMode: "file-system"}},
			MountOptions:          &api.MountOptions{FSType: "ext4", MountFlags: []string{"[REDACTED]"}},
		}},
		ExternalID: "x1", Capacity: 5000000, Schedulable: true, AccessMode: "single-node-writer",
		Topologies: []*api.Topology{{Segments: map[string]string{"zone": "a"}}},
		Claims: []*api.VolumeClaim{
			{
				AllocID: "a1111111-0000", NodeID: "n1111111-0000", JobID: "old", Mode: "write", State: api.ClaimReleasing, Since: now.Add(-90*time.Minute - 30*time.Second).UnixNano(),
				LastError: "target is busy", NextRetry: now.Add(150*time.Minute + 30*time.Second).UnixNano(),
			},
			{AllocID: "a2222222-0000", NodeID: "n2222222-0000", JobID: "new", Mode: "write", State: api.ClaimWaiting, Predecessor: "a1111111-0000"},
		},
	}
	a := newAgent(t, map[string]any{
		"GET /v1/volumes":       []*api.VolumeStub{{ID: "v1", Namespace: "team"}, {ID: "v1-old", Namespace: "team"}},
		"GET /v1/volume/csi/v1": v,
	})
	o := run(t, a, "", "volume", "status", "v1")
	o.want(t, 0, "External ID          = x1", "Capacity             = 4.8 MiB", "fs_type: ext4 flags: [REDACTED]", "1         zone=a",
		"single-node-writer  file-system", "a1111111", "releasing", "1h30m ago", "in 2h30m", "target is busy", "waiting for a1111111", "No allocations placed")
	if !strings.Contains(a.asked[len(a.asked)-1], "namespace=team") {
		t.Errorf("the volume was read elsewhere: %v", a.asked)
	}
}

func TestVolumeDetach(t *testing.T) {
	const gone = "6a1d2c1e-77ea-4c4d-9a52-0c1f6cf0a001"
	volume := &api.VolumeDetail{Volume: api.Volume{VolumeSpec: api.VolumeSpec{ID: "v1"}}, Claims: []*api.VolumeClaim{{NodeID: "dead-node-1"}}}
	for _, x := range []struct {
		nodes []*api.NodeStub
		typed string
		want  string
		code  int
	}{
		{[]*api.NodeStub{{ID: "n1111111-0000"}}, "n111", "node=n1111111-0000", 0},
		{nil, "dead", "node=dead-node-1", 0}, // The node is gone, its claim is not
		{nil, "lost", "node=lost-node-1", 0}, // the node and its claims are gone, an attachment is not
		{nil, gone, "node=" + gone, 0},
		{[]*api.NodeStub{{ID: "n1-a"}, {ID: "n1-b"}}, "n1", "", 1}, // Ambiguous is an error, not a guess
		// The tables show names. What names no node would be a success that ends nothing.
		{[]*api.NodeStub{{ID: "e5-a", Name: "web1"}, {ID: "e6-b", Name: "web2"}}, "web2", "node=e6-b", 0},
		{[]*api.NodeStub{{ID: "e5-a", Name: "web1"}}, "web3", "", 1},
		{[]*api.NodeStub{{ID: "e5-a", Name: "web"}, {ID: "e6-b", Name: "web"}}, "web", "", 1},
		{[]*api.NodeStub{{ID: "e5-a", Name: "e6"}, {ID: "e6-b", Name: "web"}}, "e6", "", 1},
	} {
		a := newAgent(t, map[string]any{
			"GET /v1/volumes": []*api.VolumeStub{{ID: "v1", Namespace: "default"}}, "GET /v1/volume/csi/v1": volume,
			"GET /v1/volumes/attachments": []*api.AttachmentStub{{NodeID: "lost-node-1"}},
			"GET /v1/nodes":               x.nodes, "DELETE /v1/volume/csi/v1/detach": "",
		})
		run(t, a, "", "volume", "detach", "v1", x.typed).want(t, x.code, "")
		if asked := strings.Join(a.asked, "\n"); x.code == 0 && !strings.Contains(asked, x.want) || x.code != 0 && strings.Contains(asked, "DELETE") {
			t.Errorf("%s: asked %s", x.typed, asked)
		}
	}
}

// TestVolumesOfAnUnknownNodeAreNotAnEmptyList: tables show nodes by their names.
func TestVolumesOfAnUnknownNodeAreNotAnEmptyList(t *testing.T) {
	a := newAgent(t, map[string]any{
		"GET /v1/nodes": []*api.NodeStub{{ID: "e5-a", Name: "web1"}}, "GET /v1/volumes": []*api.VolumeStub{}, "GET /v1/volumes/attachments": []*api.AttachmentStub{},
	})
	for _, command := range []string{"attachments", "status"} {
		run(t, a, "", "volume", command, "-node", "web1").want(t, 0, "No")
		if last := a.asked[len(a.asked)-1]; !strings.Contains(last, "node_id=e5-a") {
			t.Errorf("%s: asked %s", command, last)
		}
		run(t, a, "", "volume", command, "-node", "web2").want(t, 1, `name "web2"`)
	}
}

func TestVolumeDeregisterForceAsks(t *testing.T) {
	for input, code := range map[string]int{
		"y\n": 0, "yes\n": 0, " y \r\n": 0, "y": 0, "n\n": 0, "\n": 0, "Y\n": 0, "YES\n": 0, "no\n": 0, "what\n": 1, "": 1, "yyes\n": 1,
		"y no wait, not that one\n": 1, "yes no\n": 1, "y\x1b[D\n": 1, strings.Repeat("y", 1<<20): 1,
	} {
		a := newAgent(t, map[string]any{"GET /v1/volumes": []*api.VolumeStub{{ID: "v1", Namespace: "default"}}, "DELETE /v1/volume/csi/v1": ""})
		run(t, a, input, "volume", "deregister", "-force", "v1").want(t, code, "Are you sure")
		if done := strings.Contains(strings.Join(a.asked, "\n"), "DELETE"); done != slices.Contains([]string{"y", "yes"}, strings.TrimSpace(input)) {
			t.Errorf("answer %q: deregistered = %v", input, done)
		}
	}
}

func TestSecretsMustBePairs(t *testing.T) {
	run(t, newAgent(t, nil), "", "volume", "delete", "-secret", "hunter2", "v1").want(t, 1, "-secret is not key=value")
	if o := run(t, newAgent(t, nil), "", "volume", "delete", "-secret", "hunter2", "v1"); strings.Contains(o.err, "hunter2") {
		t.Error("the secret is printed")
	}
	// Parameters are checked as secrets are.
	run(t, newAgent(t, nil), "", "volume", "snapshot", "create", "-parameter", "x", "v1", "s").want(t, 1, "-parameter is not key=value")
}

// TestOnlyCapabilitiesThatAreThere: false ones are not listed.
func TestOnlyCapabilitiesThatAreThere(t *testing.T) {
	a := newAgent(t, map[string]any{
		"GET /v1/plugins": []*api.PluginStub{{ID: "hostpath"}},
		"GET /v1/plugin/csi/hostpath": &api.Plugin{
			ID: "hostpath", Provider: "p", NodesHealthy: 1,
			Nodes:       map[string]*api.CSIInfo{"n1": {Healthy: true, NodeInfo: &api.CSINodeInfo{SupportsStats: true}}},
			Controllers: map[string]*api.CSIInfo{"n2": {Healthy: false, HealthDescription: "no socket", ControllerInfo: &api.CSIControllerInfo{SupportsClone: true}}},
		},
	})
	o := run(t, a, "", "plugin", "status", "-verbose", "host")
	o.want(t, 0, "GET_VOLUME_STATS", "no socket")
	if strings.Contains(o.out, "STAGE_UNSTAGE") || strings.Contains(o.out, "CLONE_VOLUME") {
		t.Errorf("capabilities that are not there: %s", o.out)
	}
}

func TestNodeStatus(t *testing.T) {
	node := &api.Node{
		ID: "n1111111-0000", Name: "one", NodePool: "default", Status: "ready", SchedulingEligibility: "eligible",
		NodeResources:  &api.NodeResources{Cpu: api.NodeCpuResources{CpuShares: 1000}, Memory: api.NodeMemoryResources{MemoryMB: 1024}},
		Drivers:        map[string]*api.DriverInfo{"raw_exec": {Healthy: true, Detected: true}, "exec": {Detected: true}},
		CSINodePlugins: map[string]*api.CSIInfo{"hostpath": {}},
		Events:         []*api.NodeEvent{{Message: "Node registered", Subsystem: "Cluster", Timestamp: time.Unix(1, 0)}},
	}
	a := newAgent(t, map[string]any{
		"GET /v1/nodes":              []*api.NodeStub{{ID: "n1111111-0000", Name: "one", NodePool: "default", Status: "ready", SchedulingEligibility: "eligible"}},
		"GET /v1/node/n1111111-0000": node, "GET /v1/node/n1111111-0000/allocations": []*api.Allocation{}, "GET /v1/volumes": []*api.VolumeStub{},
	})
	run(t, a, "", "node", "status").want(t, 0, "ID        Node Pool", "n1111111  default", "eligible     ready")
	run(t, a, "", "node", "status", "n1").want(t, 0, "CSI Drivers     = hostpath", "exec (unhealthy),raw_exec", "Node registered", "0/1000 MHz", "No allocations placed")
	run(t, a, "", "node", "eligibility", "n1").want(t, 1, "either -enable or -disable")
}

func TestStatusFindsAnything(t *testing.T) {
	a := newAgent(t, map[string]any{
		"POST /v1/search":             struct{ Matches map[string][]string }{map[string][]string{"plugins": {"hostpath"}}},
		"GET /v1/plugins":             []*api.PluginStub{{ID: "hostpath"}},
		"GET /v1/plugin/csi/hostpath": &api.Plugin{ID: "hostpath", Provider: "provider.x"},
	})
	run(t, a, "", "status", "host").want(t, 0, "provider.x")
	a = newAgent(t, map[string]any{"POST /v1/search": struct{ Matches map[string][]string }{map[string][]string{"jobs": {"ab"}, "nodes": {"ac"}}}})
	run(t, a, "", "status", "a").want(t, 1, "Multiple matches", "ab", "ac")
	a = newAgent(t, map[string]any{"POST /v1/search": struct{ Matches map[string][]string }{}})
	run(t, a, "", "status", "zz").want(t, 1, "No matches")
}

func TestServerMembers(t *testing.T) {
	a := newAgent(t, map[string]any{
		"GET /v1/agent/members": &api.ServerMembers{Members: []*api.AgentMember{{Name: "s1.global", Addr: "127.0.0.1", Port: 4648, Status: "alive", Tags: map[string]string{"port": "4647", "region": "global"}}}},
		"GET /v1/status/leader": "\"127.0.0.1:4647\"",
	})
	run(t, a, "", "server", "members").want(t, 0, "s1.global  127.0.0.1  4648  alive   true")
}

func TestInitWritesOnce(t *testing.T) {
	dir := t.TempDir()
	for _, verb := range [][]string{{"job", "init", dir + "/j.hcl"}, {"volume", "init", dir + "/v.hcl"}, {"volume", "init", "-json", dir + "/v.json"}} {
		run(t, nil, "", verb...).want(t, 0, "written to")
		run(t, nil, "", verb...).want(t, 1, "already exists")
	}
}
