package bench_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// BenchmarkPage registers 10,000 jobs with 5 allocations each and measures the web page of that cluster in a browser: from
// the request to the first paint, to the list of jobs and to a filtered list, and how the heap of a page that stays open
// grows while as many events as an hour has run through it. The browser is driven by BenchmarkPage of cmd/nomad/e2e/ui,
// whose module has the libraries for that.
func BenchmarkPage(b *testing.B) {
	const jobs, each = 10_000, 5
	a := startServer(b)
	newSwarm(b, a, 1000)
	together(jobs, 64, func(i int) { a.placed(b, jobOf(fmt.Sprint("j", i), api.JobTypeService, each)) })
	cmd := exec.CommandContext(b.Context(), "go", "test", "-vet", "off", "-run", "^$", "-bench", "^BenchmarkPage$", "-benchtime", "1x", "./ui")
	cmd.Dir = filepath.Join("..", "e2e")
	cmd.Env = append(os.Environ(), "PAGE_ADDRESS="+a.Address())
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if len(words) < 4 || !strings.HasPrefix(words[0], "BenchmarkPage") {
			continue
		}
		for i := 2; i+1 < len(words); i += 2 {
			value, err := strconv.ParseFloat(words[i], 64)
			if err != nil {
				b.Fatalf("%q of %s: %v", words[i], line, err)
			}
			b.ReportMetric(value, words[i+1])
		}
		b.ReportMetric(0, "ns/op")
		return
	}
	b.Fatalf("no figures: %s", out)
}
