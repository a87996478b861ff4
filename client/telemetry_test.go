package client_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/internal/metrics"
)

func TestNodeReportsItselfAndItsAllocations(t *testing.T) {
	b := setup(t)
	r, err := metrics.New(metrics.Config{NoHost: true, Prometheus: true})
	if err != nil {
		t.Fatal(err)
	}
	b.conf.Telemetry = client.Telemetry{Metrics: r, Node: true, Allocs: true, Hooks: true, Interval: 20 * time.Millisecond, Meta: []string{"team"}}
	b.start(t)
	r.Read(b.node.Gauges)
	batch, long := alloc("a1", job("batch", "mock_driver", map[string]any{"run_for": "1ms"})), alloc("a2", job("service", "mock_driver", map[string]any{"run_for": "1h"}))
	batch.Job.Meta, batch.JobID = map[string]string{"team": "red"}, "etl/dispatch-1"
	long.Job.TaskGroups[0].MaxRunDuration = time.Hour
	b.place(batch)
	b.place(long)
	scrape := func() string {
		w := httptest.NewRecorder()
		r.Prometheus().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		return w.Body.String()
	}
	for _, want := range []string{
		`nomad_client_allocations_running{[^}]*node_status="ready"[^}]*} 1`, `nomad_client_allocations_terminal{.*} 1`, `nomad_client_tasks_running{.*} 1`,
		`nomad_client_host_memory_total{.*} [1-9]`, `nomad_client_host_cpu_total_percent{cpu="cpu0"`, `nomad_client_unallocated_cpu{.*} `,
		`nomad_client_allocs_complete{alloc_id="a1",dispatch_id="1",job="etl",namespace="default",task_group="g",team="red"} 1`,
		`nomad_client_allocs_max_run_duration_configured_seconds{.*} 3600`, `nomad_client_alloc_hook_volumes_success [1-9]`, `nomad_client_volumes_mounts{.*health="failed".*} 0`,
	} {
		pattern := regexp.MustCompile("(?m)^" + want)
		eventually(t, fmt.Sprintf("%s is reported", want), func() bool { return pattern.MatchString(scrape()) })
	}
}
