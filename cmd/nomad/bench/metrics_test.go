package bench_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// metricsCode matches functions that record metrics or read the figures of the runtime for them.
const metricsCode = `internal/metrics|hashicorp/go-metrics|prometheus/client_golang`

var ofTotal = regexp.MustCompile(`accounting for \S+, ([0-9.]+)% of (\S+) total`)

// BenchmarkMetrics prints how much of the processor time of a server that jobs are registered at is that of metrics, recorded
// for Prometheus, too: the share of the samples of a profile that have a function of metrics in their stack.
func BenchmarkMetrics(b *testing.B) {
	a := startServer(b, "telemetry {\n  prometheus_metrics = true\n}")
	newSwarm(b, a, 1000)
	var next atomic.Int64
	register := func(int) {
		a.placed(b, jobOf(fmt.Sprint("j", next.Add(1)), api.JobTypeService, 1))
	}
	together(200, 64, register)
	var profiled atomic.Bool
	var group sync.WaitGroup
	group.Go(func() {
		for !profiled.Load() && !b.Failed() {
			together(64, 64, register)
		}
	})
	first := next.Load()
	resp, err := http.Get(a.Address() + "/debug/pprof/profile?seconds=10")
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	profile, err := io.ReadAll(resp.Body)
	jobs := next.Load() - first
	profiled.Store(true)
	group.Wait()
	file := filepath.Join(b.TempDir(), "profile")
	if err != nil || resp.StatusCode != http.StatusOK || os.WriteFile(file, profile, 0o600) != nil {
		b.Fatalf("profile: status %d, %v", resp.StatusCode, err)
	}
	out, err := exec.CommandContext(b.Context(), "go", "tool", "pprof", "-top", "-nodefraction=0", "-nodecount=0", "-focus", metricsCode, file).CombinedOutput()
	found := ofTotal.FindStringSubmatch(string(out))
	if err != nil || found == nil {
		b.Fatalf("pprof: %v: %s", err, out)
	}
	share, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(share, "%-of-cpu")
	b.ReportMetric(float64(jobs)/10, "jobs/s")
	b.ReportMetric(0, "ns/op")
}
