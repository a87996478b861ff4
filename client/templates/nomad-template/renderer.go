package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"time"

	"github.com/hashicorp/consul-template/config"
	dep "github.com/hashicorp/consul-template/dependency"
	"github.com/hashicorp/consul-template/template"
	"github.com/hashicorp/consul-template/watch"
)

const (
	// apiSocket is the descriptor of a socket of the API.
	apiSocket = "/proc/self/fd/3"
	dialMax   = 5 * time.Second
	queryWait = 5 * time.Minute
	// Pauses between calls that fail.
	retryMin = 250 * time.Millisecond
	retryMax = 5 * time.Second
	// missingShown bounds a report of what is missing.
	missingShown = 10
)

// renderer executes templates when their data changes. Only run uses it, but for the channels.
type renderer struct {
	spec      *spec
	out       *output
	brain     *template.Brain
	watcher   *watch.Watcher
	clients   *dep.ClientSet
	conf      *config.Config
	templates []*oneTemplate
	files     map[string]file
	watched   map[string]dep.Dependency
	updates   chan update
	reported  string // what was missing in the last report
	warned    map[string]bool
	// denied reports for each missing variable whether the task may not read it.
	denied map[string]bool
}

// oneTemplate is a template and the state of its last execution.
type oneTemplate struct {
	source
	parsed *template.Template
	used   map[string]dep.Dependency
	// reads are the files that the last execution has read, lacks those that it waits for.
	reads, lacks map[string]bool
	rendered     bool
	last         []byte
	// due is the time of the next execution; zero when no data has changed. changed is when data changed first since the last.
	due, changed time.Time
}

func newRenderer(s *spec, out *output) (*renderer, error) {
	r := &renderer{
		spec: s, out: out, brain: template.NewBrain(), clients: dep.NewClientSet(), files: map[string]file{}, watched: map[string]dep.Dependency{},
		updates: make(chan update), warned: map[string]bool{}, denied: map[string]bool{},
		conf: &config.Config{Nomad: &config.NomadConfig{Namespace: &s.Namespace}},
	}
	if err := r.connect(s.Token); err != nil {
		return nil, err
	}
	r.watcher = watch.NewWatcher(&watch.NewWatcherInput{
		Clients: r.clients, MaxStale: s.Calls.MaxStale, BlockQueryWaitTime: cmp.Or(s.Calls.Wait, queryWait),
		RetryFuncNomad: s.Calls.pauseAfter, RetryFuncDefault: s.Calls.pauseAfter,
	})
	now := time.Now()
	for _, src := range s.Templates {
		t := &oneTemplate{source: src, due: now}
		var err error
		t.parsed, err = template.NewTemplate(&template.NewTemplateInput{
			Contents: src.Text, LeftDelim: src.LeftDelim, RightDelim: src.RightDelim, ErrMissingKey: src.ErrMissingKey,
			ExtFuncMap: r.functions(t), FunctionDenylist: s.Denied,
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", src.Name, err)
		}
		r.templates = append(r.templates, t)
	}
	return r, nil
}

// pauseAfter reports whether a call is repeated after it has failed tries times before, and after which pause.
func (c calls) pauseAfter(tries int) (bool, time.Duration) {
	pause, limit := cmp.Or(c.Backoff, retryMin), cmp.Or(c.BackoffMax, retryMax)
	for range min(tries, 20) {
		pause = min(2*pause, limit)
	}
	return c.Attempts <= 0 || tries+1 < c.Attempts, min(pause, limit)
}

// socket dials the API on the descriptor that the agent has passed.
type socket struct{}

func (socket) Dial(_, _ string) (net.Conn, error) { return net.DialTimeout("unix", apiSocket, dialMax) }

func (socket) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialMax}
	return d.DialContext(ctx, "unix", apiSocket)
}

func (r *renderer) connect(token string) error {
	return r.clients.CreateNomadClient(&dep.CreateNomadClientInput{
		Address: "http://agent", Namespace: r.spec.Namespace, Token: token, TransportCustomDialer: socket{}, TransportMaxIdleConns: 100,
		TransportMaxIdleConnsPerHost: 100, TransportIdleConnTimeout: time.Minute,
	})
}

// readUpdates ends the program when the agent ends.
func (r *renderer) readUpdates(in *json.Decoder) {
	for {
		var u update
		if in.Decode(&u) != nil {
			os.Exit(0)
		}
		r.updates <- u
	}
}

// run renders until a template fails.
func (r *renderer) run() error {
	for {
		now := time.Now()
		for _, t := range r.templates {
			if !t.due.IsZero() && !t.due.After(now) {
				if err := r.execute(t); err != nil {
					return fmt.Errorf("%s: %w", t.Name, err)
				}
			}
		}
		r.follow()
		if err := r.wait(); err != nil {
			return err
		}
	}
}

// wait returns when data has changed, or a template is due.
func (r *renderer) wait() error {
	timer := time.NewTimer(r.idle())
	defer timer.Stop()
	select {
	case v := <-r.watcher.DataCh():
		r.received(v)
	case u := <-r.updates:
		if err := r.apply(u); err != nil {
			return err
		}
	case err := <-r.watcher.ServerErrCh():
		r.warn(err)
		return nil
	case err := <-r.watcher.ErrCh(): // it is not tried again
		return err
	case <-timer.C:
		return nil
	}
	for { // what has arrived together is rendered once
		select {
		case v := <-r.watcher.DataCh():
			r.received(v)
		default:
			return nil
		}
	}
}

// idle is the time until the next template is due.
func (r *renderer) idle() time.Duration {
	d := time.Hour
	for _, t := range r.templates {
		if !t.due.IsZero() {
			d = min(d, time.Until(t.due))
		}
	}
	return d
}

func (r *renderer) received(v *watch.View) {
	d := v.Dependency()
	if r.watched[d.String()] == nil {
		return // no template uses it any more
	}
	r.brain.Remember(d, v.Data())
	for _, t := range r.templates {
		if t.used[d.String()] != nil {
			t.touch()
		}
	}
}

// touch makes a template due because its data has changed.
func (t *oneTemplate) touch() {
	if t.Once && t.rendered {
		return
	}
	now := time.Now()
	if !t.rendered || t.Wait.Min <= 0 {
		t.due = now
		return
	}
	if t.changed.IsZero() {
		t.changed = now
	}
	t.due = now.Add(t.Wait.Min)
	if last := t.changed.Add(t.Wait.Max); t.Wait.Max > 0 && t.due.After(last) {
		t.due = last
	}
}

func (r *renderer) apply(u update) error {
	if u.Token != "" {
		if err := r.connect(u.Token); err != nil {
			return err
		}
		r.spec.Token = u.Token
		clear(r.denied)
	}
	for path, f := range u.Files {
		if r.files[path] == f {
			continue
		}
		r.files[path] = f
		if f.Missing != "" {
			r.warn(fmt.Errorf("file(%s): %s", path, f.Missing))
		}
		for _, t := range r.templates {
			if t.reads[path] {
				t.touch()
			}
		}
	}
	return nil
}

// warn reports an error of a call that is repeated, once for each text.
func (r *renderer) warn(err error) {
	text := err.Error()
	if !r.warned[text] && len(r.warned) < 100 {
		r.warned[text] = true
		r.out.send(&report{Warning: text})
	}
}

// execute renders a template, unless data is missing.
func (r *renderer) execute(t *oneTemplate) error {
	t.due, t.changed = time.Time{}, time.Time{}
	t.reads, t.lacks = map[string]bool{}, map[string]bool{}
	defer r.watchExecution(t)()
	res, err := t.parsed.Execute(&template.ExecuteInput{Brain: r.brain, Env: r.spec.Env, Config: r.conf})
	switch {
	case err != nil && len(t.lacks) > 0:
		return nil // the error may be that of the file that is missing
	case err != nil:
		return err
	}
	t.used = map[string]dep.Dependency{}
	for _, d := range res.Used.List() {
		t.used[d.String()] = d
	}
	for _, d := range res.Missing.List() {
		t.lacks[d.String()] = true
	}
	if len(t.lacks) > 0 {
		return nil
	}
	if len(res.Output) > r.spec.ContentMax {
		return fmt.Errorf("it renders %d MiB; at most %d are possible", len(res.Output)>>20, r.spec.ContentMax>>20)
	}
	if !t.rendered || !bytes.Equal(t.last, res.Output) {
		t.last, t.rendered = res.Output, true
		r.out.send(&report{Rendered: true, Index: slices.Index(r.templates, t), Content: res.Output})
	}
	return nil
}

// follow watches what the templates use, and reports what they wait for.
func (r *renderer) follow() {
	use, files, missing := map[string]dep.Dependency{}, map[string]bool{}, map[string]bool{}
	for _, t := range r.templates {
		if t.Once && t.rendered {
			continue
		}
		maps.Copy(use, t.used)
		maps.Copy(files, t.reads)
		if !t.rendered {
			maps.Copy(missing, t.lacks)
		}
	}
	for name, d := range r.watched {
		if use[name] == nil {
			r.watcher.Remove(d)
			r.brain.Forget(d)
			delete(r.watched, name)
		}
	}
	for name, d := range use {
		if r.watched[name] == nil {
			r.watched[name] = d
			if _, err := r.watcher.Add(d); err != nil {
				r.warn(err)
			}
		}
	}
	names := slices.Sorted(maps.Keys(missing))
	over := len(names) - missingShown
	names = names[:min(len(names), missingShown)]
	for i, name := range names {
		denied, known := r.denied[name]
		if !known {
			denied = r.mayNotRead(name)
			r.denied[name] = denied
		}
		if denied {
			names[i] = name + " (permission denied)"
		}
	}
	if over > 0 {
		names = append(names, fmt.Sprintf("and %d more", over))
	}
	paths := slices.Sorted(maps.Keys(files))
	if now := fmt.Sprint(names, paths); now != r.reported {
		r.reported = now
		r.out.send(&report{Missing: names, Watch: paths})
	}
}
