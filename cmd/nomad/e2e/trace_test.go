package e2e

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/nomad/api"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// traces receives spans as an OpenTelemetry collector does.
type traces struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*tracepb.Span
}

func newTraces(t *testing.T) *traces {
	t.Helper()
	c := &traces{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var req collector.ExportTraceServiceRequest
		if body, err := io.ReadAll(r.Body); err != nil || proto.Unmarshal(body, &req) != nil {
			t.Errorf("%s %s is no export of traces", r.Method, r.URL.Path)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, rs := range req.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				c.spans = append(c.spans, ss.GetSpans()...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// of returns the spans of a trace by their names, and those whose parent is missing.
func (c *traces) of(id uuid.UUID) (names map[string]int, orphans []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	names = map[string]int{}
	known := map[string]bool{"": true}
	for _, s := range c.spans {
		if bytes.Equal(s.GetTraceId(), id[:]) {
			known[string(s.GetSpanId())] = true
		}
	}
	for _, s := range c.spans {
		if bytes.Equal(s.GetTraceId(), id[:]) {
			names[s.GetName()]++
			if !known[string(s.GetParentSpanId())] {
				orphans = append(orphans, s.GetName())
			}
		}
	}
	return names, orphans
}

func TestOneTraceLeadsFromTheSubmissionToTheStart(t *testing.T) {
	c := newTraces(t)
	a := kit.Prepare(t)
	addConfig(t, a, fmt.Sprintf("telemetry {\n otlp {\n endpoint = %q\n }\n}\n", c.URL))
	a.Launch()
	a.Plugin("hp")
	a.CreateVolume("hp", "data")
	job := kit.WithVolume(kit.ShellJob("web", "exec sleep 1000"), "data")
	job.TaskGroups[0].Tasks[0].Templates = []*api.Template{{EmbeddedTmpl: ptr("x"), DestPath: ptr("local/x")}}
	out, _, err := a.API.Jobs().Register(job, nil)
	if err != nil {
		t.Fatal(err)
	}
	a.Running("web", 1)
	id := uuid.MustParse(out.EvalID)
	want := []string{
		"PUT /v1/jobs", "rpc Job.Register", "raft apply nomad.fsm.register_job", "evaluation", "schedule", "plan apply", "allocation", "step volumes",
		"csi /csi.v1.Node/NodePublishVolume", "task step templates", "driver start raw_exec",
	}
	a.Until(30*time.Second, "the trace of the job", func() error {
		names, orphans := c.of(id)
		for _, name := range want {
			if names[name] == 0 {
				return fmt.Errorf("there is no span %q among %v", name, names)
			}
		}
		if len(orphans) > 0 {
			return fmt.Errorf("the parents of %v are missing", orphans)
		}
		return nil
	})
	log, err := os.ReadFile(filepath.Join(a.Dir, "agent.log"))
	if err != nil {
		t.Fatal(err)
	}
	trace := strings.ReplaceAll(out.EvalID, "-", "")
	for _, text := range []string{"request: trace_id=" + trace, "evaluation is processed", "allocation is set up"} {
		found := false
		for line := range strings.Lines(string(log)) {
			found = found || strings.Contains(line, text) && strings.Contains(line, "trace_id="+trace)
		}
		if !found {
			t.Errorf("no line of the log with %q has the trace id %s", text, trace)
		}
	}
}

// addConfig adds text to the configuration of an agent that was prepared.
func addConfig(t *testing.T, a *kit.Agent, text string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(a.Dir, "agent.hcl"), os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString("\n" + text)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestADebugArchiveOfARunningClusterHasNoSecrets(t *testing.T) {
	const secret = "hunter2-canary"
	a := kit.PrepareGuarded(t)
	addConfig(t, a, fmt.Sprintf("log_file = %q\ntelemetry {\n otlp {\n endpoint = \"http://127.0.0.1:1\"\n headers {\n Authorization = %q\n }\n }\n}\n", a.Dir+"/log/nomad.log", secret))
	if err := os.Mkdir(a.Dir+"/log", 0o700); err != nil {
		t.Fatal(err)
	}
	a.Launch()
	a.Plugin("hp")
	v := kit.SingleWriter("hp", "data")
	v.Secrets = map[string]string{"key": secret}
	if _, _, err := a.API.CSIVolumes().Create(v, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.API.Variables().Create(&api.Variable{Path: "nomad/jobs/web", Items: map[string]string{"k": secret}}, nil); err != nil {
		t.Fatal(err)
	}
	job := kit.WithVolume(kit.ShellJob("web", "exec sleep 1000 # "+secret), "data")
	task := job.TaskGroups[0].Tasks[0]
	task.Env = map[string]string{"PASSWORD": secret}
	task.Templates = []*api.Template{{EmbeddedTmpl: ptr(secret), DestPath: ptr("secrets/x")}}
	a.Register(job)
	a.Running("web", 1)
	dir := filepath.Join(a.Dir, "debug")
	out, code := a.Run("operator", "debug", "-token", kit.ManagementToken, "-duration", "3s", "-interval", "1s", "-event-topic", "all", "-event-index", "1", "-log-file-export", "-output", dir)
	if code != 0 {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	found := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		found[d.Name()] = true
		body, err := os.ReadFile(path)
		if bytes.Contains(body, []byte(secret)) || bytes.Contains(body, []byte(kit.ManagementToken)) {
			t.Errorf("%s contains a secret", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"index.html", "index.json", "jobs.json", "allocations.json", "evaluations.json", "csi-plugins.json", "metrics.json", "operator-autopilot-health.json",
		"doctor.json", "data.json", "data-timeline.json", "attachments.json", "eventstream.json", "monitor.log", "monitor_export.log", "agent-host.json", "node.json", "profile_0000.prof", "goroutine-debug2_0000.txt",
	} {
		if !found[name] {
			t.Errorf("there is no %s among %v", name, found)
		}
	}
}
