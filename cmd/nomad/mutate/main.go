// Command mutate changes the code of the cores in small ways and looks whether their tests notice.
//
//	mutate -cores cores.tsv -known survivors.txt -for 40m
//
// All changes of a package are built into its test programs at once, each behind a switch; the environment chooses one
// per run. Which of them are tried is decided by a hash of what they are, so that it does not depend on other code. A
// change that no test notices survives: the known ones stand in a committed list, and a new one is an error.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"
)

// core is a package to mutate.
type core struct {
	dir   string
	most  int      // how many changes are tried
	tests []string // packages with the tests that are to notice
}

func main() {
	cores := flag.String("cores", "cmd/nomad/mutate/cores.tsv", "file with the packages: directory, how many changes to try, directories of the tests")
	known := flag.String("known", "cmd/nomad/mutate/survivors.txt", "file with the changes that are known to survive")
	limit := flag.Duration("for", 40*time.Minute, "when to stop; packages and changes that were not reached are told")
	only := flag.String("only", "", "try this package alone")
	most := flag.Int("most", 0, "how many changes per package, instead of what the file says")
	write := flag.Bool("write", false, "write the list of survivors, of the packages that were tried")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, end := context.WithTimeout(ctx, *limit)
	defer end()
	m := &mutation{out: os.Stdout, only: *only, most: *most}
	if err := m.run(ctx, *cores, *known, *write); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// mutation is one run over all cores.
type mutation struct {
	out  io.Writer
	only string
	most int
	// tried are the packages that were finished.
	tried     []string
	survivors []string
}

func (m *mutation) run(ctx context.Context, cores, known string, write bool) error {
	list, err := readCores(cores)
	if err != nil {
		return err
	}
	before, err := readLines(known)
	if err != nil {
		return err
	}
	for _, c := range list {
		if m.only != "" && c.dir != m.only {
			continue
		}
		if m.most > 0 {
			c.most = m.most
		}
		if err := m.try(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", c.dir, err)
		}
	}
	if write {
		return writeLines(known, m.merge(before))
	}
	return m.judge(before)
}

// judge compares the survivors with the known ones.
func (m *mutation) judge(known []string) error {
	fresh := 0
	for _, s := range m.survivors {
		if !slices.Contains(known, s) {
			fresh++
			fmt.Fprintln(m.out, "new survivor:", s)
		}
	}
	for _, s := range known {
		if m.covers(s) && !slices.Contains(m.survivors, s) {
			fmt.Fprintln(m.out, "no longer survives, or is no longer tried:", s)
		}
	}
	if fresh > 0 {
		return fmt.Errorf("%d changes survive that did not before: write a test that notices, or remove what does nothing", fresh)
	}
	return nil
}

// merge is the list with what was found out for the packages that were tried.
func (m *mutation) merge(known []string) []string {
	kept := slices.DeleteFunc(slices.Clone(known), m.covers)
	kept = append(kept, m.survivors...)
	slices.Sort(kept)
	return slices.Compact(kept)
}

// covers reports whether a line is of a package that was tried.
func (m *mutation) covers(line string) bool {
	file, _, _ := strings.Cut(line, "\t")
	return slices.Contains(m.tried, file[:max(strings.LastIndexByte(file, '/'), 0)])
}

func readCores(path string) ([]core, error) {
	lines, err := readLines(path)
	if err != nil {
		return nil, err
	}
	var list []core
	for _, l := range lines {
		f := strings.Split(l, "\t")
		if len(f) != 3 {
			return nil, fmt.Errorf("%s: %q is not three fields", path, l)
		}
		most, err := strconv.Atoi(f[1])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		list = append(list, core{dir: f[0], most: most, tests: strings.Fields(f[2])})
	}
	return list, nil
}

// readLines reads the lines of a file that are not comments; a missing file has none.
func readLines(path string) ([]string, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []string
	s := bufio.NewScanner(f)
	for s.Scan() {
		if l := s.Text(); l != "" && !strings.HasPrefix(l, "#") {
			out = append(out, l)
		}
	}
	return out, s.Err()
}

const survivorsHead = `# Changes of the code that no test notices, as make mutate found them: file, function, change, text, number among equals.
# A line goes when a test notices the change, or the code goes. make mutate WRITE=1 writes the list anew.
`

func writeLines(path string, lines []string) error {
	return os.WriteFile(path, []byte(survivorsHead+strings.Join(lines, "\n")+"\n"), 0o644)
}
