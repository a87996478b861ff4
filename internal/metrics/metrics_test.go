package metrics_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/metrics"
)

func open(t *testing.T, c metrics.Config) *metrics.Recorder {
	t.Helper()
	r, err := metrics.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// scrape returns what Prometheus gets.
func scrape(t *testing.T, r *metrics.Recorder) string {
	t.Helper()
	w := httptest.NewRecorder()
	r.Prometheus().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("code %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func has(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains(text, l) {
			t.Errorf("no %q in:\n%s", l, text)
		}
	}
}

func record(r *metrics.Recorder) {
	r.Count("nomad.rpc.request", 2, metrics.Label{Name: "identity", Value: "client"})
	r.Sample("nomad.plan.outstanding_apply", 1)
	r.Since("nomad.eval.ack", time.Now())
	r.Call("ebs", "NodePublishVolume", "OK", 30*time.Millisecond)
	r.Read(func(emit metrics.Emit) {
		emit("nomad.job_summary.running", 1<<30+1, metrics.Label{Name: "job", Value: "web"}, metrics.Label{Name: "task_group", Value: "a\xff"})
	})
}

func TestPrometheusGetsCountersSamplesHistogramsAndGauges(t *testing.T) {
	t.Parallel()
	r := open(t, metrics.Config{Host: "h1", Prometheus: true})
	record(r)
	has(t, scrape(t, r),
		`nomad_nomad_rpc_request{host="h1",identity="client"} 2`, `nomad_nomad_plan_outstanding_apply{host="h1",quantile="0.5"} 1`,
		`nomad_nomad_eval_ack_count{host="h1"} 1`, `nomad_csi_call_duration_seconds_bucket{code="OK",host="h1",plugin="ebs",rpc="NodePublishVolume",le="0.05"} 1`,
		`nomad_nomad_job_summary_running{host="h1",job="web",task_group="a?"} 1.073741825e+09`, "# TYPE nomad_nomad_job_summary_running gauge", "go_goroutines")
	without := open(t, metrics.Config{Host: "h1", NoHost: true, Prometheus: true})
	record(without)
	has(t, scrape(t, without), `nomad_nomad_rpc_request{identity="client"} 2`, `nomad_nomad_job_summary_running{job="web",`)
}

func TestSummaryHasWhatJSONClientsKnow(t *testing.T) {
	t.Parallel()
	r := open(t, metrics.Config{Host: "h1"})
	record(r)
	s, err := r.Summary()
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	has(t, string(body), `"Name":"nomad.h1.nomad.job_summary.running","Value":1073741825,"Labels":{"job":"web"`,
		`"Name":"nomad.nomad.rpc.request","Count":1`, `"Name":"nomad.csi.call"`, `"Samples":[`, `"Points":[]`)
	if _, err := time.Parse("2006-01-02 15:04:05 -0700 MST", s.Timestamp); err != nil {
		t.Error(err)
	}
	if r.Prometheus() != nil {
		t.Error("Prometheus is served though it is off")
	}
}

func TestFilterDropsByTheLongestPrefix(t *testing.T) {
	t.Parallel()
	r := open(t, metrics.Config{NoHost: true, Prometheus: true, Filter: []string{"+nomad.nomad", "-nomad.nomad.job_summary"}, Drop: true})
	record(r)
	r.Count("client.rpc.request", 1)
	text := scrape(t, r)
	has(t, text, "nomad_nomad_rpc_request")
	for _, name := range []string{"job_summary", "nomad_client_rpc"} {
		if strings.Contains(text, name) {
			t.Errorf("%s passed the filter", name)
		}
	}
	if _, err := metrics.New(metrics.Config{Filter: []string{"nomad.raft"}}); err == nil || !strings.Contains(err.Error(), `"nomad.raft" must begin with +`) {
		t.Errorf("error %v", err)
	}
}

func TestStatsdGetsRecordsAtOnceAndGaugesAtIntervals(t *testing.T) {
	t.Parallel()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := open(t, metrics.Config{NoHost: true, Statsd: conn.LocalAddr().String(), Interval: 10 * time.Millisecond})
	record(r)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	defer running.Wait()
	defer cancel()
	if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var got string
	for buf := make([]byte, 1<<16); !strings.Contains(got, "nomad.nomad.rpc.request.client:2") || !strings.Contains(got, "nomad.nomad.job_summary.running.web"); {
		n, _, err := conn.ReadFrom(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, got)
		}
		got += string(buf[:n])
	}
}

func TestAnUnreachableSinkHoldsNothingUp(t *testing.T) {
	t.Parallel()
	r := open(t, metrics.Config{Statsite: "127.0.0.1:1", Statsd: "127.0.0.1:1", Datadog: "127.0.0.1:1", DatadogTags: []string{"a:b"}})
	for range 10_000 { // more than any queue holds
		r.Count("nomad.rpc.request", 1)
	}
	if _, err := metrics.New(metrics.Config{Datadog: "no port"}); err == nil || !strings.Contains(err.Error(), "telemetry.datadog_address") {
		t.Errorf("error %v", err)
	}
}

func TestANilRecorderRecordsNothing(t *testing.T) {
	t.Parallel()
	var r *metrics.Recorder
	record(r)
	r.Run(t.Context())
	if s, err := r.Summary(); err != nil || s.Gauges == nil || r.Prometheus() != nil {
		t.Errorf("%v, %v", s, err)
	}
}

func TestScrapesAndRecordsRunAtOnce(t *testing.T) {
	t.Parallel()
	r := open(t, metrics.Config{Host: "h", Prometheus: true})
	record(r)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 200 {
				r.Count("nomad.rpc.request", 1)
				r.Call("p", "Probe", "OK", time.Millisecond)
			}
		})
		all.Go(func() {
			for range 10 {
				scrape(t, r)
				if _, err := r.Summary(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func TestSnake(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"ListByID": "list_by_id", "ACL": "acl", "OIDCAuthURL": "oidc_auth_url", "Job": "job", "GetConfig": "get_config"} {
		if got := metrics.Snake(in); got != want {
			t.Errorf("%s is %s, not %s", in, got, want)
		}
	}
}

func BenchmarkRecord(b *testing.B) {
	for _, c := range []metrics.Config{{Host: "h"}, {Host: "h", Prometheus: true}} {
		name := "memory"
		if c.Prometheus {
			name = "prometheus"
		}
		b.Run(name, func(b *testing.B) {
			r, err := metrics.New(c)
			if err != nil {
				b.Fatal(err)
			}
			start := time.Now()
			for b.Loop() {
				r.Since("nomad.eval.ack", start)
			}
		})
	}
}
