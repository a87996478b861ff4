// Command table reads the output of `go test -bench` and prints the figures next to the bars to beat.
//
//	table -bars bars.tsv -json bench.json -doc benchmarks.md < bench.txt
//
// A figure that was measured several times is shown as its median. All figures go to the JSON file, with
// the machine that they were measured on; the table shows those that have a bar, and for each the processor time of
// its benchmark, which other programs on the machine move less. A bar that no figure stands for is an error.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// bar is one row of bars.tsv.
type bar struct {
	benchmark, unit, workload, elsewhere string
	least                                bool // ours must be at least the limit
	limit                                float64
}

// figures are measured values by benchmark and unit.
type figures map[string]map[string][]float64

func main() {
	bars := flag.String("bars", "", "file with the bars: benchmark, unit, >= or <=, limit, workload, elsewhere; separated by tabs")
	out := flag.String("json", "", "file that takes all figures")
	doc := flag.String("doc", "", "file that takes the table as a document")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, *bars, *out, *doc); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, barsFile, jsonFile, docFile string) error {
	list, err := readBars(barsFile)
	if err != nil {
		return err
	}
	all, err := parse(in)
	if err != nil {
		return fmt.Errorf("read figures: %w", err)
	}
	table, missing := rows(list, all)
	if err := print(out, table); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if docFile != "" {
		if err := os.WriteFile(docFile, []byte(markdown(table)), 0o644); err != nil {
			return fmt.Errorf("save the table: %w", err)
		}
	}
	if jsonFile != "" {
		if err := save(jsonFile, all); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%d bars have no figure:\n%s", len(missing), strings.Join(missing, "\n"))
	}
	return nil
}

func readBars(file string) ([]bar, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("bars: %w", err)
	}
	var list []bar
	for n, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		cells := strings.Split(line, "\t")
		if n == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(cells) != 6 {
			return nil, fmt.Errorf("%s:%d: %d cells instead of 6", file, n+1, len(cells))
		}
		limit, err := strconv.ParseFloat(cells[3], 64)
		if err != nil || cells[2] != ">=" && cells[2] != "<=" {
			return nil, fmt.Errorf("%s:%d: %q %q is no bar", file, n+1, cells[2], cells[3])
		}
		list = append(list, bar{benchmark: cells[0], unit: cells[1], least: cells[2] == ">=", limit: limit, workload: cells[4], elsewhere: cells[5]})
	}
	return list, nil
}

// parse reads lines such as "BenchmarkX/y-2  5  123 ns/op  4 unit".
func parse(in io.Reader) (figures, error) {
	all := figures{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		cells := strings.Fields(lines.Text())
		if len(cells) < 4 || !strings.HasPrefix(cells[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(cells[0], "Benchmark")
		if i := strings.LastIndex(name, "-"); i > 0 {
			if _, err := strconv.Atoi(name[i+1:]); err == nil {
				name = name[:i]
			}
		}
		for i := 2; i+1 < len(cells); i += 2 {
			v, err := strconv.ParseFloat(cells[i], 64)
			if err != nil {
				break
			}
			if all[name] == nil {
				all[name] = map[string][]float64{}
			}
			all[name][cells[i+1]] = append(all[name][cells[i+1]], v)
		}
	}
	return all, lines.Err()
}

// perOp are units of time that stand for the go tool's own.
var perOp = map[string]float64{"ms/op": 1e6, "s/op": 1e9}

func (f figures) of(benchmark, unit string) []float64 {
	nanoseconds, convert := perOp[unit]
	if !convert {
		return f[benchmark][unit]
	}
	var values []float64
	for _, v := range f[benchmark]["ns/op"] {
		values = append(values, v/nanoseconds)
	}
	return values
}

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return s[len(s)/2]
}

// cpu lists the processor times that the benchmark reports; "-" when there are none.
func (f figures) cpu(benchmark string) string {
	var found []string
	for _, unit := range slices.Sorted(maps.Keys(f[benchmark])) {
		if strings.HasPrefix(unit, "cpu-") {
			found = append(found, figure(median(f[benchmark][unit]))+" "+strings.TrimPrefix(unit, "cpu-"))
		}
	}
	return cmp.Or(strings.Join(found, ", "), "-")
}

// head names the columns of the table.
var head = []string{"workload", "elsewhere", "bar", "ours", "processor time", ""}

// rows returns a row per bar, and the workloads of the bars that have no figure.
func rows(list []bar, all figures) (table [][]string, missing []string) {
	for _, b := range list {
		values := all.of(b.benchmark, b.unit)
		sign, verdict := "<=", ""
		if b.least {
			sign = ">="
		}
		ours := "not measured"
		if len(values) == 0 {
			missing = append(missing, fmt.Sprintf("%s (%s of Benchmark%s)", b.workload, b.unit, b.benchmark))
		} else {
			v := median(values)
			ours = figure(v) + " " + b.unit
			if b.least && v < b.limit || !b.least && v > b.limit {
				verdict = "BELOW THE BAR"
			}
		}
		table = append(table, []string{b.workload, b.elsewhere, sign + " " + figure(b.limit), ours, all.cpu(b.benchmark), verdict})
	}
	return table, missing
}

// machine describes where and when the figures were measured.
func machine() string {
	return fmt.Sprintf("%s, %d cores, load %s, %s", cpuName(), runtime.NumCPU(), load(), time.Now().Format(time.DateOnly))
}

// print writes the table for a terminal.
func print(out io.Writer, table [][]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n%s\n\n", machine())
	for _, row := range append([][]string{head}, table...) {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// markdown is the table as a document.
func markdown(table [][]string) string {
	var out strings.Builder
	fmt.Fprintf(&out, `# Benchmarks

`+"`make bench`"+` writes this file. Each figure is the median of its runs. "Elsewhere" was measured on another machine and only orients. A row that misses its bar says BELOW THE BAR.

Measured on %s.

`, machine())
	for i, row := range append([][]string{head}, table...) {
		fmt.Fprintf(&out, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			out.WriteString(strings.Repeat("|---", len(head)) + "|\n")
		}
	}
	return out.String()
}

func figure(v float64) string {
	switch {
	case v >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func save(file string, all figures) error {
	medians := map[string]map[string]float64{}
	for name, units := range all {
		medians[name] = map[string]float64{}
		for unit, values := range units {
			medians[name][unit] = median(values)
		}
	}
	text, err := json.MarshalIndent(map[string]any{
		"cpu": cpuName(), "cores": runtime.NumCPU(), "load": load(), "time": time.Now().UTC().Format(time.RFC3339), "figures": medians,
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode figures: %w", err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("save figures: %w", err)
	}
	return nil
}

func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

func cpuName() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
