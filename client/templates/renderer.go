package templates

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/retry"
)

const (
	// Pauses before a program that has died is started again.
	restartMin = 100 * time.Millisecond
	restartMax = 10 * time.Second
	// deathsMax is how often the program may die before it has rendered all templates once.
	deathsMax = 5
	// readEvery is the time between two looks at the files that templates read.
	readEvery = 500 * time.Millisecond
	// errorsKept bounds what is kept of the program's error output.
	errorsKept = 4 << 10
)

// Source is a template.
type Source struct {
	// Name is how errors name the template.
	Name                  string
	Text                  string
	LeftDelim, RightDelim string
	ErrMissingKey         bool
	// Once is set when the template is not rendered again.
	Once bool
	Wait Wait
}

// Config is what one renderer needs.
type Config struct {
	Sources   []Source
	Env       map[string]string
	Namespace string
	// Token is the identity for the API.
	Token string
	// Serve begins to serve the API until the listener is closed; nil when there is none.
	Serve func(net.Listener)
	// Rendered receives the content of a template, also when it is what it was after the program has died. Calls follow each other.
	Rendered func(index int, content []byte)
	// Missing receives what the templates wait for, before all are rendered.
	Missing func(names []string)
	// Warn receives errors of calls that are repeated until they succeed.
	Warn func(text string)
	// Read reads a file for the function file.
	Read func(path string) File
}

// Failure is the error of a template that cannot be rendered.
type Failure struct{ Text string }

// Error implements error.
func (f *Failure) Error() string { return f.Text }

// Is reports that the template is invalid.
func (f *Failure) Is(target error) bool { return target == fault.Invalid }

// Renderer renders the templates of one task.
type Renderer struct {
	program *Program
	conf    Config

	mu    sync.Mutex
	token string
	// to is the input of the running program; nil when none runs.
	to *json.Encoder
}

// Renderer returns a renderer; nothing runs before [Renderer.Run].
func (p *Program) Renderer(c Config) *Renderer {
	return &Renderer{program: p, conf: c, token: c.Token}
}

// Run renders until ctx ends, or until a template fails: the error is a [Failure] then.
func (r *Renderer) Run(ctx context.Context) error {
	pauses := retry.Between(restartMin, restartMax)
	everComplete, deaths := false, 0
	for {
		complete, err := r.runProgram(ctx)
		var failure *Failure
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &failure), errors.Is(err, fault.Unimplemented):
			return err
		}
		if complete {
			everComplete = true
			pauses.Reset()
		}
		if deaths++; deaths >= deathsMax && !everComplete {
			return fault.New(fault.Unavailable, "the program that renders templates ended %d times: %w", deaths, err)
		}
		r.program.Log.Warn("the program that renders templates ended", "error", err)
		if !pauses.Wait(ctx) {
			return ctx.Err()
		}
	}
}

// SetToken replaces the identity for the API.
func (r *Renderer) SetToken(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.token = token
	if r.to != nil {
		_ = r.to.Encode(update{Token: token}) // a program that has died gets it when it is started again
	}
}

// runProgram runs the program once; complete is set when it has rendered all templates.
func (r *Renderer) runProgram(ctx context.Context) (complete bool, err error) {
	path, err := r.program.install()
	if err != nil {
		return false, err
	}
	// The kernel kills the program when the thread that has started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(path) //nolint:gosec // our own program
	cmd.Dir, cmd.Env = "/", []string{"GOMAXPROCS=2"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	failures := &head{}
	cmd.Stderr = failures
	if r.conf.Serve != nil {
		l, at, err := listen()
		if err != nil {
			return false, fmt.Errorf("make a socket for templates: %w", err)
		}
		defer l.Close()
		defer at.Close()
		cmd.ExtraFiles = []*os.File{at}
		r.conf.Serve(l)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return false, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("start the program that renders templates: %w", err)
	}
	running, cancel := context.WithCancel(ctx)
	watch := make(chan []string, 1)
	var helpers sync.WaitGroup
	helpers.Go(func() {
		<-running.Done()
		_ = in.Close()
		_ = cmd.Process.Kill()
	})
	helpers.Go(func() { r.sendFiles(running, watch) })
	if err = r.begin(in); err == nil {
		complete, err = r.read(out, watch)
	}
	cancel()
	r.mu.Lock()
	r.to = nil
	r.mu.Unlock()
	_, _ = io.Copy(io.Discard, out)
	ended := cmd.Wait()
	helpers.Wait()
	var failure *Failure
	switch text := failures.String(); {
	case errors.As(err, &failure):
	case strings.Contains(text, "out of memory") || strings.Contains(text, "cannot allocate memory"):
		err = &Failure{"the templates of the task need more memory than templates may use"}
	case err == nil || errors.Is(err, io.EOF):
		err = errors.Join(ended, errors.New(firstLine(text)))
	}
	return complete, err
}

// begin sends the first message.
func (r *Renderer) begin(in io.Writer) error {
	memory, processor := r.program.bounds()
	s := spec{
		Templates: slices.Clone(r.conf.Sources), Namespace: r.conf.Namespace, Denied: r.program.Denied, MemoryMax: memory, ContentMax: contentMax, ProcessorMax: processor, Calls: r.program.Calls,
	}
	for i := range s.Templates {
		s.Templates[i].Wait = r.program.wait(s.Templates[i].Wait)
	}
	for name, value := range r.conf.Env {
		s.Env = append(s.Env, name+"="+value)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Token, r.to = r.token, json.NewEncoder(in)
	return r.to.Encode(s)
}

// read takes the reports of the program until its output ends.
func (r *Renderer) read(out io.Reader, watch chan []string) (complete bool, err error) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 2*contentMax)
	rendered := map[int]bool{}
	for lines.Scan() {
		var m report
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return complete, fmt.Errorf("decode a report of the program that renders templates: %w", err)
		}
		switch {
		case m.Error != "":
			return complete, &Failure{m.Error}
		case m.Warning != "":
			r.conf.Warn(m.Warning)
		case m.Rendered:
			if m.Index < 0 || m.Index >= len(r.conf.Sources) {
				return complete, fmt.Errorf("the program that renders templates has sent template %d", m.Index)
			}
			r.conf.Rendered(m.Index, m.Content)
			rendered[m.Index] = true
			complete = len(rendered) == len(r.conf.Sources)
		default:
			select { // the newest list replaces one that was not taken yet
			case <-watch:
			default:
			}
			watch <- m.Watch
			r.conf.Missing(m.Missing)
		}
	}
	return complete, lines.Err()
}

// sendFiles sends the files that templates read, and again when they change, until ctx ends.
func (r *Renderer) sendFiles(ctx context.Context, watch <-chan []string) {
	var paths []string
	sent := map[string]File{}
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		select {
		case paths = <-watch:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		changed := map[string]File{}
		for _, path := range paths {
			f := r.conf.Read(path)
			if old, known := sent[path]; !known || old != f {
				changed[path], sent[path] = f, f
			}
		}
		if len(changed) > 0 {
			r.mu.Lock()
			if r.to != nil {
				_ = r.to.Encode(update{Files: changed})
			}
			r.mu.Unlock()
		}
	}
}

// head keeps the first bytes that are written to it.
type head struct {
	mu   sync.Mutex
	text []byte
}

// Write implements [io.Writer].
func (t *head) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[:min(len(p), errorsKept-len(t.text))]...)
	return len(p), nil
}

// String returns what is kept.
func (t *head) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
