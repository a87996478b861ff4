package command_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/rest"
)

// shapes are the types of answers by their paths; x is the id of everything.
var shapes = map[string]any{
	"/v1/jobs": []*api.JobStub{}, "/v1/job/x": api.Job{}, "/v1/job/x/summary": api.JobSummary{}, "/v1/job/x/allocations": []*api.AllocStub{},
	"/v1/job/x/evaluations": []*api.Evaluation{}, "/v1/job/x/deployments": []*api.Deployment{}, "/v1/job/x/deployment": api.Deployment{},
	"/v1/job/x/versions": api.JobVersionsResponse{}, "/v1/job/x/submission": api.JobSubmission{}, "/v1/job/x/scale": api.JobScaleStatus{},
	"/v1/job/x/plan": api.JobPlanResponse{}, "/v1/validate/job": api.JobValidateResponse{}, "/v1/job/x/dispatch": api.JobDispatchResponse{},
	"/v1/job/x/periodic/force": api.PeriodicForceResponse{}, "/v1/job/x/revert": api.JobRegisterResponse{}, "/v1/job/x/evaluate": api.JobRegisterResponse{},
	"/v1/nodes": []*api.NodeStub{}, "/v1/node/x": api.Node{}, "/v1/node/x/allocations": []*api.Allocation{}, "/v1/client/stats": api.HostStats{},
	"/v1/agent/monitor": "a line", "/v1/agent/monitor/export": "a line", "/v1/client/metadata": api.NodeMetaResponse{},
	"/v1/client/identity": struct{ Claims map[string]any }{}, "/v1/client/identity/renew": api.Empty{},
	"/v1/acl/identity/client-introduction-token": api.NodeIntroductionResponse{},
	"/v1/node/x/drain":                           api.NodeWriteResponse{}, "/v1/node/x/eligibility": api.NodeWriteResponse{},
	"/v1/allocations": []*api.AllocStub{}, "/v1/allocation/x": api.Allocation{}, "/v1/allocation/x/stop": api.AllocStopResponse{},
	"/v1/client/allocation/x/stats": api.AllocResourceUsage{}, "/v1/client/allocation/x/pause": api.AllocGetPauseResponse{}, "/v1/client/fs/ls/x": []*api.AllocFileInfo{}, "/v1/client/fs/stat/x": api.AllocFileInfo{},
	"/v1/evaluations": []*api.Evaluation{}, "/v1/evaluation/x": api.Evaluation{}, "/v1/evaluation/x/allocations": []*api.AllocStub{},
	"/v1/evaluations/count": api.EvalCountResponse{},
	"/v1/deployments":       []*api.Deployment{}, "/v1/deployment/x": api.Deployment{}, "/v1/deployment/allocations/x": []*api.AllocStub{},
	"/v1/deployment/fail/x": api.DeploymentUpdateResponse{}, "/v1/deployment/promote/x": api.DeploymentUpdateResponse{}, "/v1/deployment/pause/x": api.DeploymentUpdateResponse{},
	"/v1/volumes": []*api.VolumeStub{}, "/v1/volume/csi/x": api.VolumeDetail{}, "/v1/volume/csi/x/create": api.VolumeWriteResponse{},
	"/v1/volumes/attachments": []*api.AttachmentStub{}, "/v1/volumes/external": api.VolumeListExternalResponse{}, "/v1/volumes/snapshot": api.SnapshotListResponse{},
	"/v1/volumes/doctor": rest.VolumeReport{}, "/v1/volume/csi/x/doctor": rest.VolumeReport{}, "/v1/volume/csi/x/timeline": []*api.VolumeEvent{},
	"/v1/plugins/doctor": rest.PluginsReport{}, "/v1/plugin/csi/x/doctor": rest.PluginsReport{},
	"/v1/plugins": []*api.PluginStub{}, "/v1/plugin/csi/x": api.Plugin{},
	"/v1/namespaces": []*api.Namespace{}, "/v1/namespace/x": api.Namespace{}, "/v1/regions": []string{}, "/v1/search": struct{ Matches map[string][]string }{},
	"/v1/agent/self": api.AgentSelf{}, "/v1/agent/members": api.ServerMembers{}, "/v1/agent/servers": []string{}, "/v1/agent/keyring/list": api.KeyringResponse{},
	"/v1/operator/raft/configuration": api.RaftConfiguration{}, "/v1/operator/autopilot/configuration": api.AutopilotConfiguration{},
	"/v1/operator/autopilot/health": api.OperatorHealthReply{}, "/v1/operator/scheduler/configuration": api.SchedulerConfigResponse{},
	"/v1/operator/raft/transfer-leadership": api.LeadershipTransferResponse{},
	"/v1/operator/keyring/keys":             []*api.RootKeyMeta{}, "/v1/operator/keyring/rotate": api.RootKeyRotateResponse{},
	"/v1/acl/bootstrap": api.ACLToken{}, "/v1/acl/tokens": []*api.ACLTokenListStub{}, "/v1/acl/token": api.ACLToken{}, "/v1/acl/token/x": api.ACLToken{}, "/v1/acl/token/self": api.ACLToken{},
	"/v1/acl/policies": []*api.ACLPolicyListStub{}, "/v1/acl/policy/x": api.ACLPolicy{}, "/v1/acl/policy/self": []*api.ACLPolicyListStub{}, "/v1/acl/explain": api.ACLExplainResponse{},
	"/v1/acl/roles": []*api.ACLRole{}, "/v1/acl/role": api.ACLRole{}, "/v1/acl/role/x": api.ACLRole{}, "/v1/acl/role/name/x": api.ACLRole{},
	"/v1/acl/auth-methods": []*api.ACLAuthMethodListStub{}, "/v1/acl/auth-method": api.ACLAuthMethod{}, "/v1/acl/auth-method/x": api.ACLAuthMethod{},
	"/v1/acl/binding-rules": []*api.ACLBindingRuleListStub{}, "/v1/acl/binding-rule": api.ACLBindingRule{}, "/v1/acl/binding-rule/x": api.ACLBindingRule{},
	"/v1/acl/login": api.ACLToken{}, "/v1/acl/oidc/auth-url": api.ACLOIDCAuthURLResponse{},
	"/v1/quotas": []*api.QuotaSpec{}, "/v1/quota": api.QuotaSpec{}, "/v1/quota/x": api.QuotaSpec{}, "/v1/quota/usage/x": api.QuotaUsage{},
	"/v1/volume/host/x": api.HostVolume{}, "/v1/volumes/claims": []*api.HostVolumeClaim{},
	"/v1/services": []*api.ServiceNamespace{{Services: []*api.ServiceStub{{}}}}, "/v1/service/x": []*api.ServiceRegistration{{}},
	"/v1/vars": []*api.VariableMeta{}, "/v1/var/x": api.Variable{},
	"/v1/event/stream":     api.Events{},
	"/v1/scaling/policies": []*api.ScalingPolicy{}, "/v1/scaling/policy/x": api.ScalingPolicy{},
}

// hostile are texts that would fake output: they clear the screen, set the title, begin a line, turn the direction.
var hostile = []string{
	"x", "", "web", "\x1b[2J\x1b]0;PWNED\x07", "a\nFAKED line", "a\r\nFAKED", "\rx", "\u009b31m", "\u202eabc", "größe\t\x00", "\u2028FAKED", strings.Repeat("n", 300),
	"running", "complete", "failed", "blocked", "pending", "Added", "Edited", "csi", "service", "batch", "system", "down", "2006-01-02T15:04:05Z", "%s%n%d", "{{.}}",
}

// filled makes a value of a type from a seed. Everything has the id x.
func filled(r *rand.Rand, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		if depth < 9 && r.IntN(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			filled(r, v.Elem(), depth+1)
		}
	case reflect.Struct:
		if t, ok := v.Addr().Interface().(*time.Time); ok {
			*t = time.Unix(r.Int64N(1<<33), 0)
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); !f.IsExported() {
				continue
			} else if f.Name == "ID" && f.Type.Kind() == reflect.String {
				v.Field(i).SetString("x")
			} else {
				filled(r, v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		n := r.IntN(3)
		if depth > 9 {
			n = 0
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			member(r, v.Index(i), depth)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(3) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			filled(r, key, depth+1)
			if depth <= 9 {
				member(r, value, depth)
			}
			if value.Kind() != reflect.Pointer || !value.IsNil() {
				v.SetMapIndex(key, value)
			}
		}
	case reflect.String:
		v.SetString(hostile[r.IntN(len(hostile))])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt([]int64{0, 1, -1, 7, 1 << 40, 1<<63 - 1, -1 << 63}[r.IntN(7)])
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint([]uint64{0, 1, 7, 1<<64 - 1}[r.IntN(4)])
	case reflect.Float32, reflect.Float64:
		v.SetFloat([]float64{0, 1, -1, 1e300, 0.5}[r.IntN(5)])
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(hostile[r.IntN(len(hostile))]))
		}
	}
}

// member is an element of a list or map: no null.
func member(r *rand.Rand, v reflect.Value, depth int) {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	filled(r, v, depth+1)
}

// liar answers every request with a value of the type that the path has, made from the seed.
type liar struct {
	mu   sync.Mutex
	seed uint64
}

func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("X-Nomad-Index", "5")
	l.mu.Lock()
	defer l.mu.Unlock()
	shape, ok := shapes[r.URL.Path]
	switch {
	case r.URL.Path == "/v1/client/fs/logs/x" || r.URL.Path == "/v1/client/fs/cat/x": // shown as it is
	case !ok:
		http.Error(w, "no\x1b[2J\nsuch thing", http.StatusInternalServerError)
	default:
		v := reflect.New(reflect.TypeOf(shape))
		filled(rand.New(rand.NewPCG(l.seed, uint64(len(r.URL.Path)))), v.Elem(), 0)
		text, err := json.Marshal(v.Interface())
		if err != nil {
			text = []byte("{}")
		}
		_, _ = w.Write(text)
	}
}

// checkShown refuses output that steers a terminal or has lines that others wrote.
func checkShown(t *testing.T, verb, shown string) {
	t.Helper()
	if i := strings.IndexFunc(shown, func(r rune) bool {
		return r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028'
	}); i >= 0 {
		t.Errorf("%s shows %q", verb, shown[max(0, i-100):min(len(shown), i+40)])
	}
	if i := strings.Index(shown, "\nFAKED"); i >= 0 {
		t.Errorf("%s shows a line of others: %q", verb, shown[max(0, i-100):min(len(shown), i+40)])
	}
}

// onSocket serves many thousands of runs: over a socket, which needs no port, with connections that end with their
// request, since each run is a client of its own that would keep its idle ones.
func onSocket(tb testing.TB, h http.Handler) (address string) {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		tb.Fatal(err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	server.SetKeepAlivesEnabled(false)
	go func() { _ = server.Serve(l) }()
	tb.Cleanup(func() { _ = server.Close() })
	return "unix://" + path
}

// FuzzRenderers shows answers of the right types with odd values.
func FuzzRenderers(f *testing.F) {
	for i := range verbs {
		f.Add(uint16(i), uint64(i))
		f.Add(uint16(i), uint64(1000+i))
		f.Add(uint16(i), uint64(2000+i))
		f.Add(uint16(i), uint64(980)) // messages of servers about the gossip keys
	}
	l := &liar{}
	address := onSocket(f, l)
	files := verbFiles(f)
	f.Fuzz(func(t *testing.T, i uint16, seed uint64) {
		l.mu.Lock()
		l.seed = seed
		l.mu.Unlock()
		verb := verbs[int(i)%len(verbs)]
		checkShown(t, fmt.Sprintf("%s, seed %d,", verb, seed), showVerb(t, address, files(verb)))
	})
}

// FuzzAnswers shows answers of any bytes.
func FuzzAnswers(f *testing.F) {
	for i := range verbs {
		f.Add(uint16(i), []byte(`[{"ID":"x","Name":"\u001b[2J"}]`))
		f.Add(uint16(i), []byte(`{"ID":"x","Name":"a\nFAKED","Job":{"ID":"x"}}`))
	}
	var mu sync.Mutex
	var body []byte
	address := onSocket(f, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("X-Nomad-Index", "5")
		_, _ = w.Write(body)
	}))
	files := verbFiles(f)
	f.Fuzz(func(t *testing.T, i uint16, answer []byte) {
		mu.Lock()
		body = bytes.Clone(answer)
		mu.Unlock()
		verb := verbs[int(i)%len(verbs)]
		shown := showVerb(t, address, files(verb))
		if !strings.HasPrefix(verb, "alloc logs") && !strings.HasPrefix(verb, "alloc fs") { // files are shown as they are
			checkShown(t, verb, shown)
		}
	})
}
