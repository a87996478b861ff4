package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const output = `goos: linux
BenchmarkSchedule/plain/nodes=10-2   3  100 ns/op  70 placements/s
BenchmarkSchedule/plain/nodes=10-2   3  100 ns/op  90 placements/s
BenchmarkSchedule/plain/nodes=10-2   3  100 ns/op  80 placements/s
BenchmarkHold-2   1  512 MiB-server  3.5 cpu-ms/job
PASS
`

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bars.tsv")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestMediansStandBesideTheirBars(t *testing.T) {
	bars := write(t, "benchmark\tunit\tsign\tlimit\tworkload\telsewhere\n"+
		"Schedule/plain/nodes=10\tplacements/s\t>=\t75\tplain\t5/s\n"+
		"Hold\tMiB-server\t<=\t400\thold\t2 GB\n"+
		"Schedule/plain/nodes=10\tms/op\t<=\t1\ttime\t-\n")
	saved, doc := filepath.Join(t.TempDir(), "bench.json"), filepath.Join(t.TempDir(), "benchmarks.md")
	var out strings.Builder
	if err := run(strings.NewReader(output), &out, bars, saved, doc); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"80.0 placements/s", "0.0001 ms/op", "512.0 MiB-server   3.5 ms/job      BELOW THE BAR"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	if strings.Count(out.String(), "BELOW") != 1 {
		t.Errorf("verdicts:\n%s", out.String())
	}
	if text, err := os.ReadFile(doc); err != nil || !strings.Contains(string(text), "| hold | 2 GB | <= 400.0 | 512.0 MiB-server | 3.5 ms/job | BELOW THE BAR |\n") {
		t.Errorf("%s %v", text, err)
	}
	var kept struct{ Figures map[string]map[string]float64 }
	text, _ := os.ReadFile(saved)
	if err := json.Unmarshal(text, &kept); err != nil || kept.Figures["Hold"]["MiB-server"] != 512 {
		t.Errorf("%s %v", text, err)
	}
}

func TestBarWithoutAFigureIsAnError(t *testing.T) {
	bars := write(t, "benchmark\tunit\tsign\tlimit\tworkload\telsewhere\n"+
		"Hold\tMiB-server\t<=\t400\thold\t2 GB\n"+
		"Hold\tMiB-peak\t<=\t400\tpeak\t-\n"+
		"Other\tx\t<=\t1\tother\t-\n")
	var out strings.Builder
	err := run(strings.NewReader(output), &out, bars, "", "")
	if err == nil || !strings.Contains(err.Error(), "peak (MiB-peak of BenchmarkHold)") || !strings.Contains(err.Error(), "2 bars") {
		t.Errorf("%v", err)
	}
	if strings.Count(out.String(), "not measured") != 2 || !strings.Contains(out.String(), "512.0") {
		t.Errorf("the table lacks figures or gaps:\n%s", out.String())
	}
}

func TestBrokenBarsAreNamed(t *testing.T) {
	bars := write(t, "head\nA\tb\t=\t75\tplain\t5/s\n")
	err := run(strings.NewReader(output), &strings.Builder{}, bars, "", "")
	if err == nil || !strings.Contains(err.Error(), "bars.tsv:2") {
		t.Fatal(err)
	}
}
