package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Environment of the test programs: the change that is switched on, and the file that takes those that were reached.
const (
	envMutant = "NOMAD_MUTANT"
	envSeen   = "NOMAD_MUTANT_SEEN"
)

// switchboard is compiled into a package under change.
const switchboard = `package %s

import (
	"fmt"
	"os"
	"strconv"
	"sync"
)

var mutantOn, _ = strconv.Atoi(os.Getenv("` + envMutant + `"))
var mutantSeen = os.Getenv("` + envSeen + `")
var mutantsReached sync.Map

func mutant(id int) bool {
	if mutantSeen != "" {
		if _, had := mutantsReached.LoadOrStore(id, true); !had {
			if f, err := os.OpenFile(mutantSeen, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666); err == nil {
				fmt.Fprintln(f, id)
				f.Close()
			}
		}
	}
	return id == mutantOn
}
`

// program is a test program with all changes of a core.
type program struct {
	dir, path string
	args      []string
	took      time.Duration
	reached   map[int]bool
}

// try finds the survivors of one package.
func (m *mutation) try(ctx context.Context, c core) error {
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	sites, sources, err := sitesOf(ctx, c)
	if err != nil {
		return err
	}
	sites = choose(sites, c.most)
	begin := time.Now()
	progs, sites, err := build(ctx, tmp, c, sources, sites)
	if err == nil {
		err = baseline(ctx, tmp, progs)
	}
	if ctx.Err() != nil {
		fmt.Fprintf(m.out, "%-28s not tried: the time is over\n", c.dir)
		return nil
	}
	if err != nil {
		return err
	}
	survivors, left := kill(ctx, progs, sites)
	if ctx.Err() != nil {
		fmt.Fprintf(m.out, "%-28s %d of %d changes tried, %d survive; then the time was over\n", c.dir, len(sites)-left, len(sites), len(survivors))
	} else {
		fmt.Fprintf(m.out, "%-28s %d changes, %d survive (%s)\n", c.dir, len(sites), len(survivors), time.Since(begin).Round(time.Second))
		m.tried = append(m.tried, c.dir)
	}
	m.survivors = append(m.survivors, survivors...)
	return nil
}

// sitesOf lists the sites of a package, and its sources by path.
func sitesOf(ctx context.Context, c core) ([]*site, map[string][]byte, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-json=GoFiles,Name", "./"+c.dir).Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list: %w", err)
	}
	var pkg struct {
		Name    string
		GoFiles []string
	}
	if err := json.Unmarshal(out, &pkg); err != nil {
		return nil, nil, err
	}
	var sites []*site
	sources := map[string][]byte{filepath.Join(c.dir, "mutant_switch.go"): fmt.Appendf(nil, switchboard, pkg.Name)}
	for _, name := range pkg.GoFiles {
		if strings.HasPrefix(name, "zz_") {
			continue
		}
		path := filepath.Join(c.dir, name)
		src, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, err
		}
		list, err := find(path, src)
		if err != nil {
			return nil, nil, err
		}
		sites, sources[path] = append(sites, list...), src
	}
	return sites, sources, nil
}

var compileError = regexp.MustCompile(`(?m)^\S*?([^/\s:]+\.go):(\d+):\d+: `)

// build makes the test programs. Changes that do not compile are left out.
func build(ctx context.Context, tmp string, c core, sources map[string][]byte, sites []*site) ([]*program, []*site, error) {
	for range 20 {
		overlay, err := layOver(tmp, sources, sites)
		if err != nil {
			return nil, nil, err
		}
		out, err := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "./"+c.dir).CombinedOutput()
		if err != nil {
			broken := compileError.FindAllStringSubmatch(string(out), -1)
			n := len(sites)
			sites = slices.DeleteFunc(sites, func(s *site) bool {
				return slices.ContainsFunc(broken, func(b []string) bool {
					return b[1] == filepath.Base(s.file) && b[2] == strconv.Itoa(s.line)
				})
			})
			if n == len(sites) {
				return nil, nil, fmt.Errorf("build: %w\n%s", err, out)
			}
			continue
		}
		var progs []*program
		for i, dir := range c.tests {
			p := &program{dir: dir, path: filepath.Join(tmp, fmt.Sprint("test", i)), args: []string{"-test.failfast"}}
			if out, err := exec.CommandContext(ctx, "go", "test", "-vet", "off", "-overlay", overlay, "-c", "-o", p.path, "./"+dir).CombinedOutput(); err != nil {
				return nil, nil, fmt.Errorf("build the tests of %s: %w\n%s", dir, err, out)
			}
			if drawsAtRandom(dir) { // without looking for the shortest example
				p.args = append(p.args, "-rapid.shrinktime=0s", "-rapid.nofailfile")
			}
			progs = append(progs, p)
		}
		return progs, sites, nil
	}
	return nil, nil, errors.New("build: too many changes do not compile")
}

// layOver writes the changed sources and the file that the go tool takes them from.
func layOver(tmp string, sources map[string][]byte, sites []*site) (string, error) {
	replace := map[string]string{}
	for path, src := range sources {
		mine := slices.DeleteFunc(slices.Clone(sites), func(s *site) bool { return s.file != path })
		abs, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		replace[abs] = filepath.Join(tmp, filepath.Base(path))
		if err := os.WriteFile(replace[abs], rewrite(src, mine), 0o600); err != nil {
			return "", err
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(tmp, "overlay.json")
	return overlay, os.WriteFile(overlay, b, 0o600)
}

func drawsAtRandom(dir string) bool {
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
	return slices.ContainsFunc(files, func(f string) bool {
		b, err := os.ReadFile(f)
		return err == nil && strings.Contains(string(b), `"pgregory.net/rapid"`)
	})
}

// baseline runs the programs without any change, and finds out which sites each reaches.
func baseline(ctx context.Context, tmp string, progs []*program) error {
	for i, p := range progs {
		seen := filepath.Join(tmp, fmt.Sprint("seen", i))
		begin := time.Now()
		out, failed := p.run(ctx, 10*time.Minute, envSeen+"="+seen)
		if failed {
			return fmt.Errorf("the tests of %s fail without any change:\n%s", p.dir, out)
		}
		p.took, p.reached = time.Since(begin), map[int]bool{}
		lines, err := readLines(seen)
		if err != nil {
			return err
		}
		for _, l := range lines {
			if id, err := strconv.Atoi(l); err == nil {
				p.reached[id] = true
			}
		}
	}
	return nil
}

// run runs the program and reports whether it failed.
func (p *program) run(ctx context.Context, limit time.Duration, env string) (string, bool) {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	cmd := exec.CommandContext(ctx, p.path, p.args...)
	cmd.Dir, cmd.Env = p.dir, append(os.Environ(), env)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err != nil
}

// kill tries every change and answers those that no program noticed, and how many were not tried.
func kill(ctx context.Context, progs []*program, sites []*site) (survivors []string, left int) {
	var mu sync.Mutex
	var all sync.WaitGroup
	next := make(chan *site)
	for range runtime.NumCPU() {
		all.Go(func() {
			for s := range next {
				noticed := slices.ContainsFunc(progs, func(p *program) bool {
					if !p.reached[s.id] {
						return false
					}
					_, failed := p.run(ctx, 4*p.took+20*time.Second, envMutant+"="+strconv.Itoa(s.id))
					return failed
				})
				mu.Lock()
				switch {
				case ctx.Err() != nil:
					left++
				case !noticed:
					survivors = append(survivors, s.key)
				}
				mu.Unlock()
			}
		})
	}
	for _, s := range sites {
		next <- s
	}
	close(next)
	all.Wait()
	slices.Sort(survivors)
	return survivors, left
}
