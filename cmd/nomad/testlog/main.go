// Command testlog reads the output of `go test -json`, shows what `go test` shows, counts the tests that were skipped,
// and names the packages and tests that took longest.
//
//	go test -json ./... | testlog -expected expected.txt -strict
//
// A test that skips itself tests nothing. Those that are known to do so stand in a list, with the reason; any other is
// named, and with -strict an error: a machine without the right to mount would leave half of the tests out in silence.
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
	"regexp"
	"slices"
	"strings"
)

func main() {
	expected := flag.String("expected", "", "file with the tests that may skip: package, test, in which runs, why; separated by tabs")
	run := flag.String("run", "plain", "which run this is, for tests that skip in some only")
	strict := flag.Bool("strict", false, "fail when another test was skipped")
	flag.Parse()
	allowed, err := read(*expected)
	if err == nil {
		err = newReport(os.Stdout, allowed, *run, *strict).follow(os.Stdin)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		os.Exit(1)
	}
}

// allowance is a test that may skip.
type allowance struct{ pkg, test, run string }

func read(path string) ([]allowance, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []allowance
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 4 {
			return nil, fmt.Errorf("%s: %q is not four fields", path, line)
		}
		list = append(list, allowance{f[0], f[1], f[2]})
	}
	return list, nil
}

// event is one line of the output; see go doc test2json.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64 // seconds, of a test or package that ended
}

// spoken is a line that a test or its helper wrote, by its source file; saidAtMost of each failed test are repeated at
// the end, where the log of an agent does not hide them.
var spoken = regexp.MustCompile(`^ +[a-z0-9_]+\.go:[0-9]+: `)

const saidAtMost = 10

// Of the packages and tests that took at least slowFrom seconds, the slowest slowAtMost are named.
const (
	slowFrom   = 5
	slowAtMost = 10
)

// report is what is shown of a run.
type report struct {
	out     io.Writer
	allowed []allowance
	run     string
	strict  bool

	lines              map[string][]string // output of tests that have not ended
	said               map[string][]string // by failed test: the lines that its source wrote
	tests, failed      int
	runs, fails        map[string]int // by test: -count runs each several times
	skipped, unwelcome []string
	broken             bool

	packages, slow map[string]float64 // seconds that packages and top-level tests took
}

func newReport(out io.Writer, allowed []allowance, run string, strict bool) *report {
	return &report{
		out: out, allowed: allowed, run: run, strict: strict,
		lines: map[string][]string{}, said: map[string][]string{}, runs: map[string]int{}, fails: map[string]int{},
		packages: map[string]float64{}, slow: map[string]float64{},
	}
}

// follow reads events until the end.
func (r *report) follow(in io.Reader) error {
	s := bufio.NewScanner(in)
	s.Buffer(nil, 64<<20)
	for s.Scan() {
		var e event
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			fmt.Fprintln(r.out, s.Text()) // of the go tool itself
			continue
		}
		r.take(e)
	}
	if err := s.Err(); err != nil {
		return err
	}
	return r.end()
}

func (r *report) take(e event) {
	name := e.Package + "\t" + e.Test
	switch {
	case e.Action == "build-output":
		fmt.Fprint(r.out, e.Output)
	case e.Action == "build-fail":
		r.broken = true
	case e.Action == "output" && e.Test == "":
		if e.Output != "PASS\n" && !strings.HasSuffix(e.Output, "[no test files]\n") {
			fmt.Fprint(r.out, e.Output)
		}
	case e.Action == "output":
		r.lines[name] = append(r.lines[name], e.Output)
	case e.Test == "":
		r.broken = r.broken || e.Action == "fail"
		r.packages[e.Package] += e.Elapsed
	case e.Action == "pass" || e.Action == "fail" || e.Action == "skip":
		r.ended(e, name)
	}
}

func (r *report) ended(e event, name string) {
	r.tests++
	r.runs[name]++
	if !strings.Contains(e.Test, "/") {
		r.slow[name] += e.Elapsed
	}
	switch e.Action {
	case "fail":
		r.failed++
		r.fails[name]++
		for _, l := range r.lines[name] {
			fmt.Fprint(r.out, l)
			if spoken.MatchString(l) {
				r.said[name] = append(r.said[name], l)
			}
		}
	case "skip":
		r.skipped = append(r.skipped, name)
		if !slices.ContainsFunc(r.allowed, func(a allowance) bool { return a.covers(e, r.run) }) {
			r.unwelcome = append(r.unwelcome, name+"\t"+reason(r.lines[name]))
		}
	}
	delete(r.lines, name)
}

func (a allowance) covers(e event, run string) bool {
	test, _, _ := strings.Cut(e.Test, "/")
	return a.pkg == e.Package && (a.test == "*" || a.test == e.Test || a.test == test+"/*" && test != e.Test) && (a.run == "all" || a.run == run)
}

// reason is the last line that a test wrote before it skipped.
func reason(lines []string) string {
	for _, l := range slices.Backward(lines) {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "---") && !strings.HasPrefix(l, "===") {
			return l
		}
	}
	return "for no reason"
}

// slowest prints the names that took longest. The time of a parallel test excludes the time it waited for its turn.
func (r *report) slowest(what string, took map[string]float64) {
	names := slices.SortedFunc(maps.Keys(took), func(a, b string) int {
		return cmp.Or(cmp.Compare(took[b], took[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		if i == slowAtMost || took[name] < slowFrom {
			return
		}
		if i == 0 {
			fmt.Fprintf(r.out, "slowest %s:\n", what)
		}
		fmt.Fprintf(r.out, "%7.1fs  %s\n", took[name], strings.ReplaceAll(name, "\t", " "))
	}
}

func (r *report) end() error {
	for _, l := range r.lines { // of tests that never ended
		for _, line := range l {
			fmt.Fprint(r.out, line)
		}
	}
	fmt.Fprintf(r.out, "%d tests, %d failed, %d skipped, of which %d are not expected to\n", r.tests, r.failed, len(r.skipped), len(r.unwelcome))
	r.slowest("packages", r.packages)
	r.slowest("tests", r.slow)
	for _, name := range slices.Sorted(maps.Keys(r.fails)) {
		fmt.Fprintf(r.out, "failed %d of %d times: %s\n", r.fails[name], r.runs[name], strings.ReplaceAll(name, "\t", " "))
		for i, l := range r.said[name] {
			if i == saidAtMost {
				break
			}
			fmt.Fprint(r.out, l)
		}
	}
	for _, u := range r.unwelcome {
		fmt.Fprintln(r.out, "skipped:", strings.ReplaceAll(u, "\t", " "))
	}
	switch {
	case r.failed > 0 || r.broken:
		return fmt.Errorf("%d tests fail", r.failed)
	case r.strict && len(r.unwelcome) > 0:
		return fmt.Errorf("%d tests were skipped that should run here", len(r.unwelcome))
	}
	return nil
}
