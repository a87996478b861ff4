package command_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
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
)

// canary is a text that no file of an archive may contain.
const canary = "canary-7f3a"

// secretive answers every request with documents that have secrets in all places.
func secretive(w http.ResponseWriter, r *http.Request) {
	job := fmt.Sprintf(`{"ID":"web","Namespace":"default","Payload":"%[1]s","TaskGroups":[{"Name":"g","Meta":{"m":"%[1]s"},"Services":[{"Checks":[{"Args":["%[1]s"],"Body":"%[1]s","Header":{"X":["%[1]s"]}}]}],
		"Tasks":[{"Name":"t","Env":{"A":"%[1]s"},"Config":{"auth":[{"password":"%[1]s"}],"args":["%[1]s"]},"Templates":[{"EmbeddedTmpl":"%[1]s"}],"Artifacts":[{"GetterHeaders":{"X":"%[1]s"}}]}]}]}`, canary)
	lists := map[string]string{
		"/v1/nodes": `[{"ID":"0123abcd-node","Name":"n1","Status":"down","SecretID":"` + canary + `","NodeClass":"big"},{"ID":"9999abcd-node","Name":"n2","Status":"ready"}]`,
		"/v1/jobs":  "[" + job + "]", "/v1/allocations": `[{"ID":"a1","Job":` + job + `,"SignedIdentities":{"jwt":"` + canary + `"}}]`,
		"/v1/evaluations": `[{"ID":"e1","JobID":"web","Status":"failed","StatusDescription":"<b>no nodes</b>"}]`,
		"/v1/plugins":     `[{"ID":"ebs","NodesHealthy":0,"NodesExpected":1}]`,
		"/v1/volumes":     `[{"ID":"data/../x","Namespace":"default","Secrets":{"k":"` + canary + `"}}]`, "/v1/deployments": "[]",
	}
	switch body, ok := lists[r.URL.Path]; {
	case ok:
		_, _ = io.WriteString(w, body)
	case r.URL.Path == "/v1/agent/members":
		_, _ = io.WriteString(w, `{"Members":[{"Name":"s1.global","Addr":"10.0.0.1","Status":"alive","Tags":{"id":"x1","rpc_addr":"10.0.0.1","port":"4647","encrypt":"`+canary+`"}},{"Name":"../../s2","Status":"failed"}]}`)
	case r.URL.Path == "/v1/status/leader":
		_, _ = io.WriteString(w, `"10.0.0.1:4647"`)
	case r.URL.Path == "/v1/volumes/doctor":
		_, _ = io.WriteString(w, `{"Volumes":1,"Findings":[{"VolumeID":"data","Kind":"node-lost","Severity":"error","Text":"stuck","Since":1}]}`)
	case r.URL.Path == "/v1/agent/monitor":
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "[INFO] a line with "+r.Header.Get("X-Nomad-Token")+"\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case r.URL.Path == "/v1/event/stream":
		_ = json.NewEncoder(w).Encode(map[string]any{"Index": 7, "Events": []any{map[string]any{"Topic": "Job", "Payload": map[string]any{"Job": json.RawMessage(job)}}}})
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case strings.HasPrefix(r.URL.Path, "/v1/agent/pprof/"):
		if r.URL.Query().Get("node_id") != "" {
			http.Error(w, "Permission denied", http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, "profile")
	case r.URL.Path == "/v1/agent/host" && r.URL.Query().Get("node_id") != "":
		<-r.Context().Done() // a node that hangs
	default:
		_, _ = io.WriteString(w, `{"Token":"`+canary+`","config":{"ACL":{"ReplicationToken":"`+canary+`"},"Vault":{"Token":"`+canary+`"}}}`)
	}
}

// unpacked reads an archive.
func unpacked(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for pack := tar.NewReader(zip); ; {
		head, err := pack.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if !filepath.IsLocal(head.Name) {
			t.Errorf("the archive contains %q", head.Name)
		}
		body, err := io.ReadAll(pack)
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(head.Name, "/")
		all[name] = string(body)
	}
}

func TestDebugArchiveIsCompleteWithoutSecrets(t *testing.T) {
	t.Chdir(t.TempDir())
	server := httptest.NewServer(http.HandlerFunc(secretive))
	defer server.Close()
	o := run(t, nil, "", "operator", "debug", "-address", server.URL, "-token", canary, "-duration", "2s", "-interval", "1s", "-event-topic", "Job", "-node-class", "big")
	o.want(t, 2, "Created debug archive: nomad-debug-", "client/0123abcd-node/profile_0000.prof", "Permission denied")
	found, _ := filepath.Glob("*")
	if len(found) != 1 {
		t.Fatalf("the command left %v", found)
	}
	all := unpacked(t, found[0])
	for name, body := range all {
		if strings.Contains(body, canary) {
			t.Errorf("%s contains a secret:\n%s", name, body)
		}
	}
	for name, text := range map[string]string{
		"index.json": `"Failures"`, "cluster/members.json": "s1.global", "cluster/agent-self.json": "Vault", "cluster/eventstream.json": `"Topic":"Job"`,
		"interval/0000/jobs.json": `"web"`, "interval/0001/allocations.json": `"a1"`, "interval/0000/metrics.json": "", "volumes/doctor.json": "node-lost",
		"volumes/default/data%2F..%2Fx-timeline.json": "", "server/s1.global/monitor.log": "a line with <redacted>", "server/s1.global/heap_0000.prof": "profile",
		"server/%2E.%2F..%2Fs2/monitor.log": "a line", "client/0123abcd-node/profile_0000.prof": "Permission denied", "client/0123abcd-node/agent-host.json": "no response",
	} {
		if body, ok := all[name]; !ok || !strings.Contains(body, text) {
			t.Errorf("%s is %q, want %q", name, body, text)
		}
	}
	if strings.Contains(strings.Join(slices.Collect(mapKeys(all)), " "), "9999abcd") {
		t.Error("a node of another class is captured")
	}
	page := all["index.html"]
	for _, text := range []string{"node-lost", "0 of 1 node instances", "&lt;b&gt;no nodes&lt;/b&gt;", "server/s1.global/heap_0000.prof", "Not captured (", "data%252F..%252Fx.json"} {
		if !strings.Contains(page, text) {
			t.Errorf("index.html lacks %q", text)
		}
	}
	if strings.Contains(page, "<script") {
		t.Error("index.html has a script")
	}
}

func mapKeys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func TestAnInterruptedDebugWritesWhatThereIs(t *testing.T) {
	t.Chdir(t.TempDir())
	var once sync.Once
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/metrics" {
			once.Do(func() { _ = self.Signal(os.Interrupt) })
		}
		secretive(w, r)
	}))
	defer server.Close()
	began := time.Now()
	run(t, nil, "", "operator", "debug", "-address", server.URL, "-duration", "1h", "-output", "out").want(t, 2, "interrupted", "Created debug folder: out/nomad-debug-")
	if took := time.Since(began); took > 25*time.Second {
		t.Errorf("it took %s", took)
	}
	for _, name := range []string{"index.html", "interval/0000/jobs.json", "server/s1.global/monitor.log"} {
		if found, _ := filepath.Glob("out/*/" + name); len(found) != 1 {
			t.Errorf("there is no %s", name)
		}
	}
}

func TestWhatDebugRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	server := httptest.NewServer(http.HandlerFunc(secretive))
	defer server.Close()
	for flags, text := range map[string]string{
		"-duration soon": "-duration \"soon\" is not a duration", "-interval 10m": "-interval 10m0s is longer than -duration 5m0s", "-log-level loud": "not one of trace",
		"-pprof-duration 2h": "-pprof-duration is 2h", "-max-nodes -1": "negative", "-server-id nobody": "unknown server", "-node-id zz": "no node has an id",
	} {
		run(t, nil, "", append([]string{"operator", "debug", "-address", server.URL}, strings.Fields(flags)...)...).want(t, 1, text)
	}
	if left, _ := filepath.Glob("*"); len(left) > 0 {
		t.Errorf("the command left %v", left)
	}
}
