package attacks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	ours "github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
	"github.com/open-nomad/open-nomad/internal/soaktest"
)

// falseNode is a node that only says that it is one.
const falseNode = "11111111-0000-0000-0000-000000000000"

// write is an HTTP write with a body that is served, or refused for its sense only. A body of nil is none.
type write struct {
	pattern string // as in the route table
	path    string
	body    any
	all     bool // poisoned with every value in every field, not with some
}

func writes() []write {
	job := func() *ours.Job {
		return &ours.Job{ID: "poisoned", Name: "poisoned", Datacenters: []string{"dc1"}, TaskGroups: []*ours.TaskGroup{{
			Name: "g", Tasks: []*ours.Task{{Name: "t", Driver: "raw_exec", Config: map[string]any{"command": "/bin/true"}}},
		}}}
	}
	type registration struct {
		Job            *ours.Job
		Submission     *ours.JobSubmission
		EnforceIndex   bool
		JobModifyIndex uint64
		PreserveCounts bool
		Diff           bool
		EvalPriority   int
	}
	volumes := &ours.VolumeRegisterRequest{Volumes: []*ours.VolumeSpec{{ID: "v", Name: "v", PluginID: "p"}}}
	return []write{
		{pattern: "PUT /v1/jobs", body: &registration{Job: job()}},
		{pattern: "PUT /v1/job/:id", path: "/v1/job/poisoned", body: &registration{Job: job()}},
		{pattern: "PUT /v1/job/:id/plan", path: "/v1/job/poisoned/plan", body: &registration{Job: job(), Diff: true}},
		{pattern: "PUT /v1/validate/job", body: &registration{Job: job()}},
		{pattern: "PUT /v1/jobs/parse", body: &ours.JobsParseRequest{JobHCL: `job "x" {}`}, all: true},
		{pattern: "DELETE /v1/job/:id", path: "/v1/job/poisoned"},
		{pattern: "PUT /v1/job/:id/evaluate", path: "/v1/job/poisoned/evaluate", body: &ours.JobEvaluateRequest{JobID: "poisoned"}, all: true},
		{pattern: "PUT /v1/job/:id/revert", path: "/v1/job/poisoned/revert", body: &ours.JobRevertRequest{JobID: "poisoned"}, all: true},
		{pattern: "PUT /v1/job/:id/stable", path: "/v1/job/poisoned/stable", body: &ours.JobStabilityRequest{JobID: "poisoned"}, all: true},
		{pattern: "PUT /v1/job/:id/versions/:tag/tag", path: "/v1/job/poisoned/versions/x/tag", body: &ours.JobTagRequest{}, all: true},
		{pattern: "DELETE /v1/job/:id/versions/:tag/tag", path: "/v1/job/poisoned/versions/x/tag"},
		{pattern: "PUT /v1/job/:id/dispatch", path: "/v1/job/poisoned/dispatch", body: &ours.JobDispatchRequest{JobID: "poisoned"}, all: true},
		{pattern: "PUT /v1/job/:id/dispatch/payload", path: "/v1/job/poisoned/dispatch/payload", body: &ours.JobDispatchRequest{}, all: true},
		{pattern: "PUT /v1/job/:id/periodic/force", path: "/v1/job/poisoned/periodic/force"},
		{pattern: "PUT /v1/job/:id/scale", path: "/v1/job/poisoned/scale", body: &ours.JobScaleRequest{JobID: "poisoned"}, all: true},
		{pattern: "PUT /v1/allocation/:id/stop", path: "/v1/allocation/x/stop"},
		{pattern: "* /v1/client/gc", path: "/v1/client/gc?node_id=" + falseNode},
		{pattern: "PUT /v1/client/allocation/:id/restart", path: "/v1/client/allocation/x/restart", body: &ours.AllocRestartRequest{}, all: true},
		{pattern: "PUT /v1/client/allocation/:id/signal", path: "/v1/client/allocation/x/signal", body: &ours.AllocSignalRequest{}, all: true},
		{pattern: "PUT /v1/client/allocation/:id/pause", path: "/v1/client/allocation/x/pause", body: &ours.AllocPauseRequest{}, all: true},
		{pattern: "* /v1/client/allocation/:id/gc", path: "/v1/client/allocation/x/gc"},
		{pattern: "PUT /v1/deployment/fail/:id", path: "/v1/deployment/fail/x"},
		{pattern: "PUT /v1/deployment/pause/:id", path: "/v1/deployment/pause/x", body: &ours.DeploymentPauseRequest{}, all: true},
		{pattern: "PUT /v1/deployment/promote/:id", path: "/v1/deployment/promote/x", body: &ours.DeploymentPromoteRequest{}, all: true},
		{pattern: "PUT /v1/deployment/allocation-health/:id", path: "/v1/deployment/allocation-health/x", body: &ours.DeploymentAllocHealthRequest{}, all: true},
		{pattern: "PUT /v1/deployment/unblock/:id", path: "/v1/deployment/unblock/x"},
		{pattern: "DELETE /v1/evaluations", body: &ours.EvalDeleteRequest{EvalIDs: []string{"x"}}, all: true},
		{pattern: "PUT /v1/namespace", body: &ours.Namespace{Name: "poisoned"}, all: true},
		{pattern: "PUT /v1/namespace/:id", path: "/v1/namespace/poisoned", body: &ours.Namespace{Name: "poisoned"}, all: true},
		{pattern: "DELETE /v1/namespace/:id", path: "/v1/namespace/poisoned"},
		{pattern: "PUT /v1/node/pools", body: &ours.NodePool{Name: "poisoned"}, all: true},
		{pattern: "PUT /v1/node/pool/:id", path: "/v1/node/pool/poisoned", body: &ours.NodePool{Name: "poisoned"}, all: true},
		{pattern: "DELETE /v1/node/pool/:id", path: "/v1/node/pool/poisoned"},
		{pattern: "PUT /v1/node/:id/evaluate", path: "/v1/node/" + falseNode + "/evaluate"},
		{pattern: "PUT /v1/node/:id/eligibility", path: "/v1/node/" + falseNode + "/eligibility", body: &ours.NodeEligibilityRequest{NodeID: falseNode, Eligibility: "eligible"}, all: true},
		{pattern: "PUT /v1/node/:id/drain", path: "/v1/node/" + falseNode + "/drain", body: &ours.NodeDrainRequest{NodeID: falseNode}, all: true},
		{pattern: "PUT /v1/node/:id/purge", path: "/v1/node/" + falseNode + "/purge"},
		{pattern: "PUT /v1/operator/scheduler/configuration", body: &ours.SchedulerConfiguration{}, all: true},
		{pattern: "PUT /v1/operator/autopilot/configuration", body: &ours.AutopilotConfiguration{}, all: true},
		{pattern: "PUT /v1/system/gc"},
		{pattern: "PUT /v1/system/reconcile/summaries"},
		{pattern: "PUT /v1/agent/reload"},
		{pattern: "PUT /v1/agent/schedulers/config", body: &ours.SchedulerWorkerConfig{NumSchedulers: 1}},
		{pattern: "PUT /v1/agent/join", path: "/v1/agent/join?address=127.0.0.1:1"},
		{pattern: "PUT /v1/agent/force-leave", path: "/v1/agent/force-leave?node=%00%ff"},
		{pattern: "PUT /v1/agent/servers", path: "/v1/agent/servers?address=%00"},
		{pattern: "PUT /v1/agent/keyring/list"},
		{pattern: "PUT /v1/agent/keyring/install", body: &struct{ Key string }{"x"}, all: true},
		{pattern: "PUT /v1/agent/keyring/use", body: &struct{ Key string }{"x"}, all: true},
		{pattern: "PUT /v1/agent/keyring/remove", body: &struct{ Key string }{"x"}, all: true},
		{pattern: "DELETE /v1/agent/keyring/remove", body: &struct{ Key string }{"x"}, all: true},
		{pattern: "DELETE /v1/operator/raft/peer", path: "/v1/operator/raft/peer?id=%00"},
		{pattern: "PUT /v1/operator/raft/transfer-leadership", path: "/v1/operator/raft/transfer-leadership?id=%00"},
		{pattern: "PUT /v1/operator/snapshot", body: &struct{ X string }{}},
		{pattern: "PUT /v1/operator/keyring/rotate", path: "/v1/operator/keyring/rotate?algorithm=%00"},
		{pattern: "DELETE /v1/operator/keyring/key/:id", path: "/v1/operator/keyring/key/%00"},
		{pattern: "PUT /v1/volume/host/create", body: hostVolume(), all: true},
		{pattern: "PUT /v1/volume/host/register", body: hostVolume(), all: true},
		{pattern: "DELETE /v1/volume/host/:id", path: "/v1/volume/host/%00"},
		{pattern: "DELETE /v1/volumes/claim/:id", path: "/v1/volumes/claim/%00"},
		{pattern: "PUT /v1/quota", body: quota(), all: true},
		{pattern: "PUT /v1/quota/:id", path: "/v1/quota/poisoned", body: quota(), all: true},
		{pattern: "DELETE /v1/quota/:id", path: "/v1/quota/poisoned"},
		{pattern: "PUT /v1/acl/bootstrap", body: &ours.ACLBootstrapRequest{}, all: true},
		{pattern: "PUT /v1/acl/token", body: &ours.ACLToken{Type: "client", Policies: []string{"x"}}, all: true},
		{pattern: "PUT /v1/acl/token/:id", path: "/v1/acl/token/" + falseNode, body: &ours.ACLToken{AccessorID: falseNode}, all: true},
		{pattern: "DELETE /v1/acl/token/:id", path: "/v1/acl/token/" + falseNode},
		{pattern: "PUT /v1/acl/token/onetime"},
		{pattern: "PUT /v1/acl/token/onetime/exchange", body: &ours.OneTimeTokenExchangeRequest{OneTimeSecretID: "x"}, all: true},
		{pattern: "PUT /v1/acl/identity/client-introduction-token", body: &ours.NodeIntroductionRequest{NodeName: "poisoned", NodePool: "default"}, all: true},
		{pattern: "PUT /v1/client/identity/renew", path: "/v1/client/identity/renew?node_id=" + falseNode, body: &struct{ NodeID string }{falseNode}, all: true},
		{pattern: "PUT /v1/acl/policy/:id", path: "/v1/acl/policy/poisoned", body: &ours.ACLPolicy{Name: "poisoned", Rules: `node { policy = "read" }`}, all: true},
		{pattern: "DELETE /v1/acl/policy/:id", path: "/v1/acl/policy/poisoned"},
		{pattern: "PUT /v1/acl/role", body: role(), all: true},
		{pattern: "PUT /v1/acl/role/:id", path: "/v1/acl/role/" + falseNode, body: role(), all: true},
		{pattern: "DELETE /v1/acl/role/:id", path: "/v1/acl/role/" + falseNode},
		{pattern: "PUT /v1/acl/auth-method", body: method(), all: true},
		{pattern: "PUT /v1/acl/auth-method/:id", path: "/v1/acl/auth-method/poisoned", body: method(), all: true},
		{pattern: "DELETE /v1/acl/auth-method/:id", path: "/v1/acl/auth-method/poisoned"},
		{pattern: "PUT /v1/acl/binding-rule", body: rule(), all: true},
		{pattern: "PUT /v1/acl/binding-rule/:id", path: "/v1/acl/binding-rule/" + falseNode, body: rule(), all: true},
		{pattern: "DELETE /v1/acl/binding-rule/:id", path: "/v1/acl/binding-rule/" + falseNode},
		{pattern: "PUT /v1/acl/login", body: &ours.ACLLoginRequest{AuthMethodName: "poisoned", LoginToken: "x"}, all: true},
		{pattern: "PUT /v1/acl/oidc/auth-url", body: &ours.ACLOIDCAuthURLRequest{AuthMethodName: "poisoned"}, all: true},
		{pattern: "PUT /v1/acl/oidc/complete-auth", body: &ours.ACLOIDCCompleteAuthRequest{AuthMethodName: "poisoned"}, all: true},
		{pattern: "PUT /v1/var/:id", path: "/v1/var/poisoned", body: &ours.Variable{Items: map[string]string{"k": "v"}}, all: true},
		{pattern: "PUT /v1/var/:id", path: "/v1/var/poisoned?lock-acquire", body: &ours.Variable{}, all: true},
		{pattern: "DELETE /v1/service/:id/:tag", path: "/v1/service/poisoned/id"},
		{pattern: "DELETE /v1/var/:id", path: "/v1/var/poisoned?cas=x"},
		{pattern: "PUT /v1/search/fuzzy", body: &struct{ Text, Context string }{"xx", "all"}, all: true},
		{pattern: "PUT /v1/jobs/statuses", body: &struct {
			Jobs            []struct{ ID, Namespace string }
			IncludeChildren bool
		}{[]struct{ ID, Namespace string }{{"x", "default"}}, true}, all: true},
		{pattern: "PUT /v1/client/metadata", path: "/v1/client/metadata?node_id=" + falseNode, body: &struct {
			NodeID string
			Meta   map[string]*string
		}{falseNode, map[string]*string{"poisoned": nil}}, all: true},
		{pattern: "PUT /v1/search", body: &struct {
			Prefix, Context string
			Text            string
		}{"x", "all", ""}, all: true},
		{pattern: "PUT /v1/volumes", body: volumes},
		{pattern: "PUT /v1/volume/csi/:id", path: "/v1/volume/csi/v", body: volumes, all: true},
		{pattern: "PUT /v1/volume/csi/:id/create", path: "/v1/volume/csi/v/create", body: volumes},
		{pattern: "DELETE /v1/volume/csi/:id", path: "/v1/volume/csi/v"},
		{pattern: "DELETE /v1/volume/csi/:id/delete", path: "/v1/volume/csi/v/delete"},
		{pattern: "PUT /v1/volume/csi/:id/delete", path: "/v1/volume/csi/v/delete", body: &ours.VolumeDeleteRequest{}, all: true},
		{pattern: "DELETE /v1/volume/csi/:id/detach", path: "/v1/volume/csi/v/detach?node=" + falseNode},
		{pattern: "PUT /v1/volume/csi/:id/detach", path: "/v1/volume/csi/v/detach?node=" + falseNode, body: &ours.VolumeDetachRequest{}, all: true},
		{pattern: "PUT /v1/volume/csi/:id/doctor", path: "/v1/volume/csi/v/doctor"},
		{pattern: "DELETE /v1/volumes/attachments", path: "/v1/volumes/attachments?plugin_id=p&external_id=x&node_id=" + falseNode},
		{pattern: "PUT /v1/volumes/snapshot", body: &ours.SnapshotCreateRequest{}, all: true},
		{pattern: "DELETE /v1/volumes/snapshot", path: "/v1/volumes/snapshot?plugin_id=p&snapshot_id=x"},
	}
}

func hostVolume() any {
	return &struct{ Volume *ours.HostVolume }{&ours.HostVolume{Name: "poisoned", PluginID: "mkdir", RequestedCapabilities: []*ours.HostVolumeCapability{
		{AttachmentMode: ours.AttachmentFileSystem, AccessMode: ours.AccessSingleNodeWriter},
	}}}
}

func quota() *ours.QuotaSpec {
	return &ours.QuotaSpec{Name: "poisoned", Limits: []*ours.QuotaLimit{{RegionLimit: &ours.QuotaResources{CPU: new(1000)}}}}
}

func role() *ours.ACLRole {
	return &ours.ACLRole{Name: "poisoned", Policies: []*ours.ACLRolePolicyLink{{Name: "poisoned"}}}
}

func method() *ours.ACLAuthMethod {
	return &ours.ACLAuthMethod{Name: "poisoned", Type: ours.AuthMethodJWT, TokenLocality: "local", MaxTokenTTL: time.Hour, Config: &ours.ACLAuthMethodConfig{JWKSURL: "https://127.0.0.1:1/"}}
}

func rule() *ours.ACLBindingRule {
	return &ours.ACLBindingRule{AuthMethod: "poisoned", BindType: "policy", BindName: "x", Selector: "x in list.x"}
}

// TestEveryWriteIsListed compares the list with the route table.
func TestEveryWriteIsListed(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for _, w := range writes() {
		listed[w.pattern] = true
	}
	site, _ := filepath.Glob("../../../../nomad/httpapi/*.go")
	nouns, _ := filepath.Glob("../../../../nomad/httpapi/*/*.go")
	rows := 0
	row := regexp.MustCompile(`Method: "(PUT|DELETE|\*)", Pattern: "([^"]+)", Serve: ([\w.]+)`)
	for _, file := range append(site, nouns...) {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range row.FindAllStringSubmatch(string(source), -1) {
			rows++
			if m[3] == "notFree" { // reads nothing
				continue
			}
			if pattern := m[1] + " " + m[2]; !strings.HasSuffix(file, "_test.go") && !listed[pattern] {
				t.Errorf("%s is not poisoned", pattern)
			}
		}
	}
	if rows < len(listed)/2 {
		t.Errorf("%d routes were found in the sources for %d listed writes", rows, len(listed))
	}
}

// bads are the values that are put in the place of others, as they stand in a body.
var bads = []string{
	`null`, `""`, `{}`, `[]`, `[null]`, `[{}]`, `{"x":null}`, `{"":{}}`, `-1`, `1e308`, `1e999`, `9223372036854775807`, `-9223372036854775808`, `18446744073709551616`, `true`,
	`"\u0000\u001b[2J\nFAKED\u202e"`, `"9999999999999h"`, `"-1ns"`,
	`"` + strings.Repeat("x", 70_000) + `"`, strings.Repeat("[", 60) + strings.Repeat("]", 60), strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000),
	`{"a":` + strings.Repeat(`{"a":`, 60) + `1` + strings.Repeat(`}`, 61), `["x"` + strings.Repeat(`,"x"`, 20_000) + `]`, `{"0":"x"` + manyKeys(5000) + `}`, `{`,
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":"x"`, i)
	}
	return b.String()
}

// fields are the ways to all fields that a type leads to, by their names in JSON, each field of each type once.
func fields(t reflect.Type) (out [][]string) {
	type way struct {
		t    reflect.Type
		path []string
	}
	seen := map[reflect.Type]bool{}
	for next := []way{{t: t}}; len(next) > 0; next = next[1:] {
		w := next[0]
		path := append([]string(nil), w.path...)
		for ; w.t.Kind() != reflect.Struct; w.t = w.t.Elem() {
			switch w.t.Kind() {
			case reflect.Slice:
				path = append(path, "[]")
			case reflect.Map:
				path = append(path, "{}")
			case reflect.Pointer:
			default:
				w.t = reflect.TypeFor[*struct{}]()
			}
		}
		if seen[w.t] || w.t == reflect.TypeFor[time.Time]() {
			continue
		}
		seen[w.t] = true
		for i := range w.t.NumField() {
			f := w.t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case !f.IsExported() || name == "-":
				continue
			case f.Anonymous && name == "":
				next = append(next, way{f.Type, path})
				continue
			case name == "":
				name = f.Name
			}
			p := append(append([]string(nil), path...), name)
			out = append(out, p)
			next = append(next, way{f.Type, p})
		}
	}
	return out
}

// put sets a value in a document of JSON; what is missing on the way is made.
func put(doc any, path []string, v any) any {
	if len(path) == 0 {
		return v
	}
	switch path[0] {
	case "[]":
		list, _ := doc.([]any)
		if len(list) == 0 {
			list = []any{nil}
		}
		list[0] = put(list[0], path[1:], v)
		return list
	case "{}":
		m, _ := doc.(map[string]any)
		if len(m) == 0 {
			return map[string]any{"g": put(nil, path[1:], v)}
		}
		for k := range m {
			m[k] = put(m[k], path[1:], v)
			break
		}
		return m
	}
	m, _ := doc.(map[string]any)
	if m == nil {
		m = map[string]any{}
	}
	m[path[0]] = put(m[path[0]], path[1:], v)
	return m
}

// mark stands where a bad value goes: it may be no JSON at all.
const mark = "\u2603"

// bodies are all poisoned bodies of a write.
func (w write) bodies(t *testing.T) (out []string) {
	t.Helper()
	out = append(out, "", "\x00", "{", "PK\x03\x04")
	out = append(out, bads...)
	if w.body == nil {
		return out
	}
	every := soaktest.Rounds(28, 7) // one of so many combinations of a field and a value
	if w.all {
		every = soaktest.Rounds(7, 1)
	}
	for i, path := range fields(reflect.TypeOf(w.body)) {
		text, err := json.Marshal(w.body)
		if err != nil {
			t.Fatal(err)
		}
		var doc any
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		text, err = json.Marshal(put(doc, path, mark))
		if err != nil {
			t.Fatal(err)
		}
		for k, bad := range bads {
			if (i+k)%every == 0 {
				out = append(out, strings.Replace(string(text), `"`+mark+`"`, bad, 1))
			}
		}
	}
	return out
}

// TestPoisonedWritesEndNoServer sends bad bodies to every HTTP write of three servers: all are answered or refused, and
// after a restart of the servers all is there.
func TestPoisonedWritesEndNoServer(t *testing.T) {
	t.Parallel()
	b := newBed(t, true)
	s := b.servers[0]
	s.Register(kit.ShellJob("kept", "exec sleep 10000"))
	alloc := s.Running("kept", 1)
	if _, err := s.API.Namespaces().Register(namespace("kept"), nil); err != nil {
		t.Fatal(err)
	}
	_, err := wire.NodeRegister.Call(t.Context(), b.connect("global-client-nomad", s), &ours.NodeRegisterRequest{Node: &ours.Node{
		ID: falseNode, SecretID: "x", Name: "false", Datacenter: "dc1", Status: ours.NodeStatusInit,
	}})
	if err != nil {
		t.Fatal(err)
	}
	pids := []int{b.servers[0].PID(), b.servers[1].PID(), b.servers[2].PID()}
	began := time.Now()
	n := b.poison(b.browser())
	t.Logf("%d writes in %s", n, time.Since(began).Round(time.Millisecond))
	for i, h := range b.servers {
		if !h.Alive() || h.PID() != pids[i] {
			t.Errorf("%s has ended", h.Name)
		}
		if text := log(t, h); strings.Contains(text, "panic") {
			t.Errorf("%s panicked: %s", h.Name, text[strings.Index(text, "panic"):][:1000])
		}
	}
	for _, h := range b.servers {
		h.Kill9()
	}
	for _, h := range b.servers {
		h.Restart()
	}
	b.voters(3)
	b.leader()
	for _, h := range b.servers {
		h.Until(30*time.Second, "the namespace", func() error {
			_, _, err := h.API.Namespaces().Info("kept", nil)
			return err
		})
		if now := h.Running("kept", 1); now.ID != alloc.ID {
			t.Errorf("%s knows %s, it was %s", h.Name, now.ID, alloc.ID)
		}
		if _, _, err := h.API.Jobs().List(nil); err != nil {
			t.Error(err)
		}
		if _, _, err := h.API.Nodes().List(nil); err != nil {
			t.Error(err)
		}
		if _, _, err := h.API.Evaluations().List(nil); err != nil {
			t.Error(err)
		}
	}
}

// poison sends all bodies, some at a time, to the servers in turn.
func (b *bed) poison(c *http.Client) (n int) {
	b.t.Helper()
	type shot struct{ server, method, path, body string }
	shots, wg := make(chan shot), sync.WaitGroup{}
	var mu sync.Mutex
	codes := map[int]int{}
	for range 6 {
		wg.Go(func() {
			for x := range shots {
				r, err := http.NewRequestWithContext(b.t.Context(), x.method, "https://"+x.server+":4646"+x.path, strings.NewReader(x.body))
				if err != nil {
					b.t.Error(err)
					continue
				}
				answer, err := c.Do(r)
				if err != nil {
					b.t.Errorf("%s %s %.200q: %v", x.method, x.path, x.body, err)
					continue
				}
				text, _ := io.ReadAll(answer.Body)
				_ = answer.Body.Close()
				mu.Lock()
				codes[answer.StatusCode]++
				mu.Unlock()
				if answer.StatusCode == http.StatusInternalServerError || bytes.Contains(text, []byte("panic")) || answer.StatusCode >= 505 {
					b.t.Errorf("%s %s %.200q: %d %.300s", x.method, x.path, x.body, answer.StatusCode, text)
				}
			}
		})
	}
	for _, w := range writes() {
		method, path, _ := strings.Cut(w.pattern, " ")
		if method == "*" {
			method = http.MethodPut
		}
		if w.path != "" {
			path = w.path
		}
		for _, body := range w.bodies(b.t) {
			shots <- shot{b.servers[n%len(b.servers)].IP, method, path, body}
			n++
		}
	}
	close(shots)
	wg.Wait()
	b.t.Logf("answers by code: %v", codes)
	return n
}
