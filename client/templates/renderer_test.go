package templates_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/templates"
)

// limit finds hangs.
const limit = time.Minute

// fakeAPI serves variables with blocking queries.
type fakeAPI struct {
	mu     sync.Mutex
	index  uint64
	vars   map[string]map[string]string
	moved  chan struct{}
	tokens []string
}

func newAPI() *fakeAPI {
	return &fakeAPI{index: 1, vars: map[string]map[string]string{}, moved: make(chan struct{})}
}

func (a *fakeAPI) put(path string, items map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.index++
	a.vars[path] = items
	close(a.moved)
	a.moved = make(chan struct{})
}

func (a *fakeAPI) serve(l net.Listener) {
	s := &http.Server{Handler: a, ReadHeaderTimeout: limit}
	go func() { _ = s.Serve(l) }()
}

func (a *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	wait, _ := strconv.ParseUint(r.URL.Query().Get("index"), 10, 64)
	path := strings.TrimPrefix(r.URL.Path, "/v1/var/")
	a.mu.Lock()
	a.tokens = append(a.tokens, r.Header.Get("X-Nomad-Token"))
	for a.index <= wait {
		moved := a.moved
		a.mu.Unlock()
		select {
		case <-moved:
		case <-r.Context().Done():
			return
		}
		a.mu.Lock()
	}
	index, items := a.index, a.vars[path]
	a.mu.Unlock()
	w.Header().Set("X-Nomad-Index", strconv.FormatUint(index, 10))
	if code := map[string]int{"denied": http.StatusForbidden, "broken": http.StatusInternalServerError}[path]; code > 0 {
		w.WriteHeader(code)
		return
	}
	if items == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"Path": path, "Namespace": "default", "Items": items})
}

// seen is what a renderer has said.
type seen struct {
	t       *testing.T
	news    chan string
	dir     string
	ended   chan error
	backlog []string
	render  *templates.Renderer
}

// installed is where the program is installed once for most tests.
var installed string

func TestMain(m *testing.M) {
	var err error
	if installed, err = os.MkdirTemp("", "templates-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(installed)
	os.Exit(code)
}

func program() *templates.Program {
	return &templates.Program{Dir: installed, Denied: templates.DeniedDefault(), MemoryMax: 48 << 20, ProcessorMax: 500 * time.Millisecond, Log: hclog.NewNullLogger()}
}

// begin runs a renderer until the test ends.
func begin(t *testing.T, p *templates.Program, c templates.Config) *seen {
	t.Helper()
	s := &seen{t: t, news: make(chan string, 1000), dir: p.Dir, ended: make(chan error, 1)}
	c.Rendered = func(i int, content []byte) { s.news <- fmt.Sprintf("%d=%s", i, content) }
	c.Missing = func(names []string) { s.news <- "missing " + strings.Join(names, ",") }
	c.Warn = func(text string) { s.news <- "warning " + text }
	if c.Read == nil {
		c.Read = func(string) templates.File { return templates.File{Refused: "no files here"} }
	}
	s.render = p.Renderer(c)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.ended <- s.render.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

// until waits for a message, whatever comes before.
func (s *seen) until(want string) {
	s.t.Helper()
	if slices.Contains(s.backlog, want) {
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case got := <-s.news:
			if got == want {
				return
			}
			s.backlog = append(s.backlog, got)
		case err := <-s.ended:
			s.t.Fatalf("it ended: %v; want %q", err, want)
		case <-timer.C:
			s.t.Fatalf("never %q; got %q", want, s.backlog)
		}
	}
}

// failure waits for the end.
func (s *seen) failure() error {
	s.t.Helper()
	select {
	case err := <-s.ended:
		return err
	case <-time.After(limit):
		s.t.Fatalf("it has no end; got %q", s.backlog)
		return nil
	}
}

func text(texts ...string) []templates.Source {
	var out []templates.Source
	for i, text := range texts {
		out = append(out, templates.Source{Name: fmt.Sprintf("template t%d", i), Text: text})
	}
	return out
}

func TestVariablesAreRenderedWhenTheyChange(t *testing.T) {
	t.Parallel()
	api := newAPI()
	s := begin(t, program(), templates.Config{
		Sources: text(`{{ with nomadVar "db" }}{{ .user }}{{ end }}`, `{{ if nomadVarExists "other" }}yes{{ else }}no{{ end }}`), Token: "t1", Serve: api.serve,
	})
	s.until("missing nomad.var.block(db@default.global)")
	s.until("1=no")
	api.put("db", map[string]string{"user": "ann"})
	s.until("0=ann")
	s.until("missing ")
	s.render.SetToken("t2")
	api.put("db", map[string]string{"user": "bob"})
	s.until("0=bob")
	api.put("other", map[string]string{"x": "y"})
	s.until("1=yes")
	api.mu.Lock()
	defer api.mu.Unlock()
	if api.tokens[0] != "t1" || api.tokens[len(api.tokens)-1] != "t2" {
		t.Errorf("tokens %q", api.tokens)
	}
}

// A variable that the task may not read is reported as another thing than one that does not exist.
func TestDeniedVariables(t *testing.T) {
	t.Parallel()
	s := begin(t, program(), templates.Config{Sources: text(`{{ with nomadVar "denied" }}{{ . }}{{ end }}{{ with nomadVar "none" }}{{ . }}{{ end }}`), Serve: newAPI().serve})
	s.until("missing nomad.var.block(denied@default.global) (permission denied),nomad.var.block(none@default.global)")
}

func TestCallsEndAfterTheirAttempts(t *testing.T) {
	t.Parallel()
	p := program()
	p.Calls = templates.Calls{Attempts: 2, Backoff: time.Millisecond}
	s := begin(t, p, templates.Config{Sources: text(`{{ with nomadVar "broken" }}{{ . }}{{ end }}`), Serve: newAPI().serve})
	if err := s.failure(); err == nil || !strings.Contains(err.Error(), "500") {
		t.Errorf("after the last attempt: %v", err)
	}
}

func TestOnceAndWait(t *testing.T) {
	t.Parallel()
	api := newAPI()
	api.put("v", map[string]string{"n": "1"})
	src := text(`once {{ with nomadVar "v" }}{{ .n }}{{ end }}`, `waits {{ with nomadVar "v" }}{{ .n }}{{ end }}`, `{{ with nomadVar "v" }}{{ .n }}{{ end }}`)
	src[0].Once, src[1].Wait = true, templates.Wait{Min: time.Hour, Max: 2 * time.Hour}
	s := begin(t, program(), templates.Config{Sources: src, Serve: api.serve})
	for _, want := range []string{"0=once 1", "1=waits 1", "2=1"} {
		s.until(want)
	}
	for n := 2; n < 5; n++ {
		api.put("v", map[string]string{"n": strconv.Itoa(n)})
		s.until("2=" + strconv.Itoa(n))
	}
	if slices.ContainsFunc(s.backlog, func(m string) bool { return strings.HasSuffix(m, " 2") || strings.HasSuffix(m, " 3") }) {
		t.Errorf("got %q", s.backlog)
	}
}

func TestTextFunctionsAndEnvironment(t *testing.T) {
	t.Setenv("SECRET_OF_THE_AGENT", "x")
	src := text(`{{ env "WHO" | toUpper }}{{ env "SECRET_OF_THE_AGENT" }}{{ env "HOME" }}`, `[[ "a" | sha256Hex | regexReplaceAll "b.*" "" ]] {{ kept }}`, `{{ sprig_upper "x" }}{{ add 1 2 }}`)
	src[1].LeftDelim, src[1].RightDelim = "[[", "]]"
	s := begin(t, program(), templates.Config{Sources: src, Env: map[string]string{"WHO": "task"}})
	s.until("0=TASK")
	s.until("1=ca978112ca1 {{ kept }}")
	s.until("2=X3")
}

func TestFailuresNameTheTemplateAndTheReason(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ text, want string }{
		"syntax":       {`{{ if }}`, "missing value for if"},
		"unknown":      {`{{ nothing }}`, `function "nothing" not defined`},
		"consul":       {`{{ key "x" }}`, "error calling key: it needs Consul: not in this version"},
		"vault":        {`{{ with secret "x" }}{{ end }}`, "error calling secret: it needs Vault: not in this version"},
		"denied":       {`{{ executeTemplate "x" }}`, "function is disabled"},
		"plugin":       {`{{ plugin "/bin/sh" }}`, "plugin"},
		"endless":      {`{{ range loop 1000000000 }}{{ end }}`, "it takes longer than a template may"},
		"huge":         {`{{ range loop 100000000 }}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{{ end }}`, "memory"},
		"outside":      {`{{ file "/etc/passwd" }}`, "no files here"},
		"missing key":  {`{{ (parseJSON "{}").x }}`, `map has no entry for key "x"`},
		"large":        {`{{ sprig_repeat 20000000 "x" }}`, "it renders 19 MiB; at most 16 are possible"},
		"no recursion": {`{{ define "a" }}{{ template "a" }}{{ end }}{{ template "a" }}`, "template t0"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			src := text(c.text)
			src[0].ErrMissingKey = true
			p := program()
			switch what {
			case "large":
				p.MemoryMax = 0
			case "huge": // the limit of memory counts, on a busy machine too
				p.ProcessorMax = time.Minute
			}
			err := begin(t, p, templates.Config{Sources: src}).failure()
			var failure *templates.Failure
			if !errors.As(err, &failure) || !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "template") && what != "huge" {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestRefusedCallsAreReportedAndRepeated(t *testing.T) {
	t.Parallel()
	api := newAPI()
	api.put("v", map[string]string{"x": "1"})
	var calls atomic.Int32
	s := begin(t, program(), templates.Config{Sources: text(`{{ with nomadVar "v" }}{{ .x }}{{ end }}`), Serve: func(l net.Listener) {
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) <= 3 {
				http.Error(w, "no leader", http.StatusInternalServerError)
				return
			}
			api.ServeHTTP(w, r)
		})
		srv := &http.Server{Handler: h, ReadHeaderTimeout: limit}
		go func() { _ = srv.Serve(l) }()
	}})
	s.until("0=1")
	if !slices.ContainsFunc(s.backlog, func(m string) bool { return strings.Contains(m, "no leader") }) {
		t.Errorf("got %q", s.backlog)
	}
}

func TestFilesAreReadByTheAgent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := templates.Files{Task: dir, Shared: t.TempDir()}
	s := begin(t, program(), templates.Config{Sources: text(`<{{ file "in" }}>`), Read: files.ReadFor})
	s.until("missing file(in)")
	for _, content := range []string{"one", "two"} {
		if err := os.WriteFile(filepath.Join(dir, "in"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		s.until("0=<" + content + ">")
	}
}

// processes are the programs that were installed in dir and run.
func processes(dir string) (pids []int) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if exe, err := os.Readlink(link); err == nil && strings.HasPrefix(exe, dir+"/") {
			if pid, err := strconv.Atoi(strings.Split(link, "/")[2]); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func TestProgramThatDiesIsStartedAgain(t *testing.T) {
	t.Parallel()
	api := newAPI()
	api.put("v", map[string]string{"x": "1"})
	p := program()
	p.Dir = t.TempDir()
	s := begin(t, p, templates.Config{Sources: text(`{{ with nomadVar "v" }}{{ .x }}{{ end }}`), Serve: api.serve})
	s.until("0=1")
	for n := 2; n < 4; n++ {
		pids := processes(p.Dir)
		if len(pids) != 1 {
			t.Fatalf("%d processes", len(pids))
		}
		if os.Geteuid() == 0 {
			if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pids[0])); err != nil || !strings.Contains(string(status), "\nUid:\t65534\t65534\t65534\t65534\n") {
				t.Errorf("%v: %s", err, status)
			}
		}
		if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		api.put("v", map[string]string{"x": strconv.Itoa(n)})
		s.until("0=" + strconv.Itoa(n))
	}
}

func TestProgramThatDoesNotStartIsGivenUp(t *testing.T) {
	t.Parallel()
	p := program()
	p.Dir = t.TempDir()
	s := begin(t, p, templates.Config{Sources: text(`{{ with nomadVar "v" }}{{ .x }}{{ end }}`), Serve: newAPI().serve})
	for {
		select {
		case err := <-s.ended:
			if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "ended 5 times") {
				t.Errorf("got %v", err)
			}
			return
		default:
		}
		for _, pid := range processes(p.Dir) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
