package tasks

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/templates"
)

// eventTemplate is the type of events about templates.
const eventTemplate = "Template"

// missingAfter is how long the first rendering takes before an event names what it waits for.
const missingAfter = time.Second

// settleAfter is how long after a restart of a task the services and variables may differ from what its files have.
const settleAfter = 5 * time.Second

// renderedTemplates writes the files of template blocks before the task starts, and again when their data changes.
type renderedTemplates struct{ *task }

func (renderedTemplates) name() string { return "templates" }

func (s renderedTemplates) up(ctx context.Context, a *attempt) error {
	s.down(a, false) // up may run again
	if len(a.spec.Templates) == 0 {
		return nil
	}
	r, err := s.newTemplateRun(a)
	if err != nil {
		return err
	}
	a.templates = r
	r.keep(s.keptTemplates(a.spec))
	if err := r.start(ctx); err != nil {
		return err
	}
	if err := a.env.Unknown(); err != nil {
		return err
	}
	s.makeEnv(a)
	return nil
}

func (renderedTemplates) resume(_ context.Context, a *attempt) { a.resumed = true }

func (s renderedTemplates) attend(ctx context.Context, a *attempt) {
	if len(a.spec.Templates) == 0 || a.resumed && !s.takeUp(ctx, a) {
		return
	}
	a.templates.follow(ctx, a)
}

func (s renderedTemplates) down(a *attempt, _ bool) {
	r := a.templates
	if r == nil {
		return
	}
	r.stop()
	a.templates = nil
	if r.isComplete() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.kept = r.contents()
	}
}

// keptTemplates returns the contents of the previous attempt, for a task that does not render them again after a restart.
func (t *task) keptTemplates(spec *api.Task) map[string][]byte {
	policy := spec.RestartPolicy
	if tg := t.g.present().Group(); policy == nil && tg != nil {
		policy = tg.RestartPolicy
	}
	if policy != nil && policy.RenderTemplates {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kept
}

// takeUp begins to render for an attempt of an earlier agent process; it reports false when ctx ended before.
func (s renderedTemplates) takeUp(ctx context.Context, a *attempt) bool {
	for notified := false; ; notified = true {
		err := signedIdentities(s).up(ctx, a)
		if err == nil {
			err = secretValues(s).up(ctx, a)
		}
		if err == nil {
			a.templates, err = s.newTemplateRun(a)
		}
		if err == nil {
			a.templates.resumed = true
			a.templates.begin(ctx)
			return true
		}
		if !notified && ctx.Err() == nil {
			s.emit(message(eventTemplate, "The templates are not rendered again: "+a.cred.hide(err).Error()))
		}
		if !pause(ctx, signPauseMax, nil) {
			return false
		}
	}
}

// asksAPI reports whether a template of the task may read services or variables.
func asksAPI(spec *api.Task) bool {
	for _, tm := range spec.Templates {
		if tm.SourcePath != "" || strings.Contains(tm.EmbeddedTmpl, "nomad") {
			return true
		}
	}
	return false
}

// templateFile is one template of an attempt.
type templateFile struct {
	*api.Template
	text     string
	dir, rel string
	file     textFile
	// program is set when the template has functions, and the number of its source is index.
	program bool
	index   int
	// written is set when text of file is in the file, seen when this run has rendered the template.
	written, seen bool
}

// templateRun is the templates of one attempt.
type templateRun struct {
	t     *task
	env   map[string]string
	token string
	files templates.Files
	list  []*templateFile
	// resumed is set when an earlier agent process has started the attempt, kept when the attempt starts with the files of the
	// previous one. New content is used from settled on: the services of the task itself are deregistered while it restarts.
	resumed, kept bool
	settled       time.Time

	cancel context.CancelFunc
	all    sync.WaitGroup
	render *templates.Renderer
	// complete is closed when all templates are written, failed receives why no more are.
	complete chan struct{}
	failed   chan error
	// news holds an item when missing or changed has changed.
	news chan struct{}

	// mu guards what follows, and the files of list, which only the renderer writes.
	mu      sync.Mutex
	missing []string
	changed map[*templateFile]bool

	// rendering is held while content is taken; it guards pending, which was rendered before settled.
	rendering sync.Mutex
	pending   map[*templateFile][]byte
}

// variables are those of the templates with env = true.
func (r *templateRun) variables() map[string]string {
	out := map[string]string{}
	if r == nil {
		return out
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.list {
		if f.Envvars {
			vars, _ := templates.ParseEnv(string(f.file.text)) // an error has ended the start
			for name, value := range vars {
				out[name] = value
			}
		}
	}
	return out
}

func (s renderedTemplates) newTemplateRun(a *attempt) (*templateRun, error) {
	of := s.g.conf.Dirs.Task(s.task.name)
	r := &templateRun{
		t: s.task, env: a.env.Vars(), token: a.cred.DefaultToken, files: templates.Files{Task: of.Dir(), Shared: s.g.conf.Dirs.Shared()},
		complete: make(chan struct{}), failed: make(chan error, 1), news: make(chan struct{}, 1), changed: map[*templateFile]bool{},
		pending: map[*templateFile][]byte{}, cancel: func() {},
	}
	for _, tm := range a.spec.Templates {
		f, err := r.file(tm, a.env.Replace)
		if err != nil {
			return nil, fmt.Errorf("template %s: %w", nameOf(tm), err)
		}
		r.list = append(r.list, f)
	}
	return r, nil
}

func nameOf(tm *api.Template) string { return tm.DestPath }

// file reads the text of a template and finds the place of its file.
func (r *templateRun) file(tm *api.Template, replace func(string) string) (f *templateFile, err error) {
	f = &templateFile{Template: tm, text: tm.EmbeddedTmpl, file: textFile{mode: 0o644, uid: tm.Uid, gid: tm.Gid}}
	if tm.Perms != "" {
		mode, err := strconv.ParseUint(tm.Perms, 8, 9)
		if err != nil {
			return nil, fault.New(fault.Invalid, "permissions %q are not octal", tm.Perms)
		}
		f.file.mode = fs.FileMode(mode)
	}
	if f.dir, f.rel, err = r.files.Find(replace(tm.DestPath)); err != nil {
		return nil, err
	}
	if tm.SourcePath != "" {
		if f.text, err = r.files.Read(replace(tm.SourcePath)); err != nil {
			return nil, fmt.Errorf("read source: %w", err)
		}
	}
	left := tm.LeftDelim
	if left == "" {
		left = "{{"
	}
	f.program = strings.Contains(f.text, left)
	return f, nil
}

// start writes all files of a new attempt. It waits for what templates need until ctx ends.
func (r *templateRun) start(ctx context.Context) error {
	r.begin(ctx)
	timer := time.NewTimer(missingAfter)
	defer timer.Stop()
	late, shown := false, ""
	for {
		select {
		case <-r.complete:
			return nil
		case err := <-r.failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			late = true
		case <-r.news:
		}
		r.mu.Lock()
		text := strings.Join(r.missing, ", ")
		r.mu.Unlock()
		if late && text != "" && text != shown {
			shown = text
			r.t.emit(message(eventTemplate, "Missing: "+text))
		}
	}
}

// begin writes the templates that are plain text and starts the renderer of the others, which ends with stop.
func (r *templateRun) begin(ctx context.Context) {
	var sources []templates.Source
	var rendering []*templateFile
	for _, f := range r.list {
		if f.program {
			f.index = len(sources)
			sources = append(sources, f.source())
			rendering = append(rendering, f)
		}
		content := []byte(f.text)
		switch {
		case r.resumed, f.program && !r.kept:
			continue
		case f.program:
			content = f.file.text
		}
		if err := r.write(f, content); err != nil {
			r.failed <- err
			return
		}
	}
	if len(sources) == 0 {
		close(r.complete)
		return
	}
	conf := r.t.g.conf
	if conf.Templates == nil {
		r.failed <- fault.New(fault.Unimplemented, "this node renders no templates with functions")
		return
	}
	if r.resumed {
		r.readWritten(rendering)
	}
	if r.kept {
		close(r.complete)
	}
	ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	done := map[int]bool{}
	c := templates.Config{
		Sources: sources, Env: r.env, Namespace: conf.Alloc.Namespace, Token: r.token, Read: r.files.ReadFor,
		Rendered: func(i int, content []byte) {
			if r.rendered(ctx, rendering[i], content) {
				if done[i] = true; len(done) == len(sources) {
					r.closeComplete()
				}
			}
		},
		Missing: func(names []string) {
			r.mu.Lock()
			r.missing = names
			r.mu.Unlock()
			r.notify()
		},
		Warn: func(text string) { r.t.emit(message(eventTemplate, text)) },
	}
	if serve := conf.ServeAPI; serve != nil {
		c.Serve = func(l net.Listener) { serve(l, r.t.name) }
	}
	if r.kept {
		r.all.Go(func() {
			if pause(ctx, time.Until(r.settled), nil) {
				r.settle(ctx)
			}
		})
	}
	r.render = conf.Templates.Renderer(c)
	r.all.Go(func() {
		if err := r.render.Run(ctx); err != nil && ctx.Err() == nil {
			r.fail(err)
		}
	})
}

func (f *templateFile) source() templates.Source {
	s := templates.Source{
		Name: "template " + nameOf(f.Template), Text: f.text, LeftDelim: f.LeftDelim, RightDelim: f.RightDelim, ErrMissingKey: f.ErrMissingKey, Once: f.Once,
	}
	if w := f.Wait; w != nil {
		s.Wait = templates.Wait{Min: w.Min, Max: w.Max}
	}
	return s
}

// readWritten takes what an earlier agent process has written as the present content.
func (r *templateRun) readWritten(rendering []*templateFile) {
	for _, f := range rendering {
		if text, err := (templates.Files{Task: f.dir, Shared: f.dir}).Read(f.rel); err == nil {
			f.file.text, f.written = []byte(text), true
		}
	}
}

func (r *templateRun) closeComplete() {
	select {
	case <-r.complete:
	default:
		close(r.complete)
	}
}

func (r *templateRun) isComplete() bool {
	select {
	case <-r.complete:
		return true
	default:
		return false
	}
}

func (r *templateRun) fail(err error) {
	select {
	case r.failed <- err:
	default:
	}
}

func (r *templateRun) notify() {
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// rendered takes new content, and reports whether it is in the file or will be.
func (r *templateRun) rendered(ctx context.Context, f *templateFile, content []byte) bool {
	r.rendering.Lock()
	defer r.rendering.Unlock()
	if r.kept && time.Now().Before(r.settled) {
		r.pending[f] = content
		return true
	}
	delete(r.pending, f)
	return r.apply(ctx, f, content)
}

// settle takes what was rendered before the time settled.
func (r *templateRun) settle(ctx context.Context) {
	r.rendering.Lock()
	defer r.rendering.Unlock()
	for f, content := range r.pending {
		delete(r.pending, f)
		r.apply(ctx, f, content)
	}
}

// apply writes new content, and reports whether it is in the file. While the task runs it tries again until ctx ends.
func (r *templateRun) apply(ctx context.Context, f *templateFile, content []byte) bool {
	first := !f.seen
	f.seen = true
	if f.written && (f.Once || bytes.Equal(f.file.text, content)) {
		return true
	}
	running := r.resumed || r.isComplete()
	for notified := false; ; notified = true {
		err := r.write(f, content)
		if err == nil {
			break
		}
		if !running {
			r.fail(err)
			return false
		}
		if !notified && ctx.Err() == nil {
			r.t.emit(message(eventTemplate, "The new content is not written yet: "+err.Error()))
		}
		if !pause(ctx, retryPause, nil) {
			return false
		}
	}
	// A new token is no change of the data.
	if running && !(first && (r.resumed || r.kept) && strings.Contains(f.text, "NOMAD_TOKEN")) {
		r.mu.Lock()
		r.changed[f] = true
		r.mu.Unlock()
		r.notify()
	}
	return true
}

// write puts content into the file of a template.
func (r *templateRun) write(f *templateFile, content []byte) error {
	if f.Envvars {
		if _, err := templates.ParseEnv(string(content)); err != nil {
			return fmt.Errorf("template %s: parse the variables: %w", nameOf(f.Template), err)
		}
	}
	file := f.file
	file.text = content
	if err := writeFiles(f.dir, map[string]textFile{f.rel: file}); err != nil {
		return fmt.Errorf("template %s: %w", nameOf(f.Template), err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f.file, f.written = file, true
	return nil
}

// contentKey is the same for a template with the same text and place.
func (f *templateFile) contentKey() string { return f.dir + "\x00" + f.rel + "\x00" + f.text }

// contents are the contents of the templates with functions. The renderer has ended.
func (r *templateRun) contents() map[string][]byte {
	out := map[string][]byte{}
	for _, f := range r.list {
		if f.program {
			out[f.contentKey()] = f.file.text
		}
	}
	return out
}

// keep lets the attempt start with the contents of the attempt before, if they are those of the same templates.
func (r *templateRun) keep(contents map[string][]byte) {
	for _, f := range r.list {
		if _, known := contents[f.contentKey()]; f.program && !known {
			return
		}
	}
	for _, f := range r.list {
		if f.program {
			f.file.text, r.kept, r.settled = contents[f.contentKey()], true, time.Now().Add(settleAfter)
		}
	}
}

// stop ends the renderer.
func (r *templateRun) stop() {
	r.cancel()
	r.all.Wait()
}
