package main_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

const monitoring = "../../docs/monitoring"

// listedMetrics are the rows of the list of metrics by name: those of the program, and why others are absent.
func listedMetrics(t *testing.T) (here, absent map[string]string) {
	t.Helper()
	body, err := os.ReadFile(monitoring + "/metrics.tsv")
	if err != nil {
		t.Fatal(err)
	}
	here, absent = map[string]string{}, map[string]string{}
	for i, line := range strings.Split(strings.TrimSuffix(string(body), "\n"), "\n") {
		f := strings.Split(line, "\t")
		switch {
		case len(f) != 4:
			t.Fatalf("line %d has %d fields, not 4", i+1, len(f))
		case i == 0:
		case f[3] != "":
			absent[f[0]] = f[3]
		default:
			here[f[0]] = f[1]
		}
	}
	return here, absent
}

// metricLiteral is the name of a metric in the code; a dot at the end takes a part that is only known later.
var metricLiteral = regexp.MustCompile(`"((?:nomad|client|raft|state|variables|agent|csi)\.[A-Za-z0-9_.-]+)"`)

// metricsInCode are the names in files that record or report metrics.
func metricsInCode(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, dir := range []string{"nomad", "client", "command/agent", "internal/metrics"} {
		err := filepath.WalkDir("../../"+dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "zz_") {
				return err
			}
			body, err := os.ReadFile(path)
			for _, m := range metricLiteral.FindAllStringSubmatch(string(body), -1) {
				if strings.Contains(string(body), "etrics") || strings.HasSuffix(path, "/names.go") {
					out[m[1]] = true
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestListedMetricsAreRecorded compares docs/monitoring/metrics.tsv with the code.
func TestListedMetricsAreRecorded(t *testing.T) {
	t.Parallel()
	here, _ := listedMetrics(t)
	code := metricsInCode(t)
	for _, k := range nomad.Commands().Kinds() {
		code[fsm.MetricName(k)] = true
	}
	for _, m := range methodsOfWire(t) {
		service, op, _ := strings.Cut(m, ".")
		code[rpc.MetricName(m)] = true
		code["client."+metrics.Snake(service)+"."+metrics.Snake(op)] = true // where a node serves it
	}
	prefixes := []string{}
	for name := range code {
		if strings.HasSuffix(name, ".") {
			prefixes = append(prefixes, name)
		}
	}
	for name := range here {
		fixed, computed, isComputed := strings.Cut(name, "<")
		switch {
		case code[name]:
		case isComputed && computed != "" && slices.Contains(prefixes, fixed):
		case code[strings.TrimSuffix(name, "_oldest_seconds")]:
		case name == "csi.call.duration_seconds": // the histogram of Prometheus
		default:
			t.Errorf("metrics.tsv lists %s, which nothing records", name)
		}
	}
	for name := range code {
		if _, listed := here[name]; !listed && !strings.HasSuffix(name, ".") && !strings.HasPrefix(name, "nomad.fsm.kind_") && literalOnly(name) {
			t.Errorf("%s is not in metrics.tsv", name)
		}
	}
}

// literalOnly leaves out the metrics of calls, which are made of the names of methods.
func literalOnly(name string) bool {
	return strings.HasPrefix(name, "nomad.volumes.") || strings.HasPrefix(name, "nomad.broker.") || strings.HasPrefix(name, "nomad.plan.") ||
		strings.HasPrefix(name, "nomad.blocked_evals.") || strings.HasPrefix(name, "client.allocs.") || strings.HasPrefix(name, "client.host.")
}

// methodsOfWire are the names of all methods, as their declarations have them.
func methodsOfWire(t *testing.T) (out []string) {
	t.Helper()
	files, err := filepath.Glob("../../api/wire/methods*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		body, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\]\{"(\w+\.\w+)", `).FindAllStringSubmatch(string(body), -1) {
			out = append(out, m[1])
		}
	}
	if len(out) < 150 {
		t.Fatalf("only %d methods were found", len(out))
	}
	return out
}

// promMetric is a metric in an expression of Prometheus.
var promMetric = regexp.MustCompile(`\bnomad_[A-Za-z0-9_]+`)

// fromLibraries are prefixes of metrics that libraries record.
var fromLibraries = []string{"nomad_raft_", "nomad_serf_", "nomad_memberlist_", "nomad_runtime_", "nomad_autopilot_"}

// TestMonitoringNamesMetricsThatExist holds dashboards, alert rules and the guide to the list of metrics.
func TestMonitoringNamesMetricsThatExist(t *testing.T) {
	t.Parallel()
	here, _ := listedMetrics(t)
	known := map[string]bool{}
	for name := range here {
		known["nomad_"+strings.NewReplacer(".", "_", "-", "_").Replace(name)] = true
	}
	exists := func(name string) bool {
		for _, suffix := range []string{"", "_count", "_sum", "_bucket"} {
			if base, ok := strings.CutSuffix(name, suffix); ok && known[base] {
				return true
			}
		}
		return slices.ContainsFunc(fromLibraries, func(p string) bool { return strings.HasPrefix(name, p) })
	}
	files, err := filepath.Glob(monitoring + "/*")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, f := range files {
		body, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f, ".json") && !json.Valid(body) {
			t.Errorf("%s is not JSON", f)
		}
		for _, name := range promMetric.FindAllString(string(body), -1) {
			found++
			if !exists(name) {
				t.Errorf("%s names %s, which does not exist", filepath.Base(f), name)
			}
		}
	}
	if found < 60 {
		t.Errorf("only %d names were found", found)
	}
}
