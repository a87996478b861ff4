package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// What follows a change of a template.
const (
	changeByRestart = "restart"
	changeByNoop    = "noop"
	changeBySignal  = "signal"
	changeByScript  = "script"
)

// follow does what the templates ask for when they change, until ctx ends.
func (r *templateRun) follow(ctx context.Context, a *attempt) {
	if !r.resumed {
		for _, f := range r.list {
			if f.ChangeMode == changeByScript && f.ChangeScript != nil && f.ChangeScript.RunOnFirstRender {
				r.runScript(ctx, a, f.ChangeScript)
			}
		}
	}
	renew := time.NewTicker(r.tokenLife(a.spec))
	defer renew.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-r.failed:
			text := a.cred.hide(err).Error()
			r.t.emit(message(eventTemplate, "Template failed: "+text))
			r.t.askOnce(restartRequest{reason: "Template failed: " + text, counted: true, fatal: errors.Is(err, fault.Invalid)})
			return
		case <-renew.C:
			if signed, err := r.t.sign(ctx, []string{api.IdentityDefaultName}); err == nil {
				r.render.SetToken(signed[api.IdentityDefaultName])
			}
		case <-r.news:
			r.handleChanges(ctx, a)
		}
	}
}

// tokenLife is the time after which the identity for the API is renewed.
func (r *templateRun) tokenLife(spec *api.Task) time.Duration {
	if id := spec.Identity; id != nil && id.TTL > 0 && r.render != nil && r.token != "" {
		return max(id.TTL/2, time.Second)
	}
	return 1000 * time.Hour
}

// handleChanges restarts or signals the task after its files have changed, or runs scripts in it.
func (r *templateRun) handleChanges(ctx context.Context, a *attempt) {
	var splay time.Duration
	r.mu.Lock()
	for f := range r.changed {
		if f.ChangeMode != changeByNoop {
			splay = max(splay, f.Splay)
		}
	}
	none := len(r.changed) == 0
	r.mu.Unlock()
	if none || splay > 0 && !pause(ctx, r.t.g.conf.Jitter(splay), nil) {
		return
	}
	r.mu.Lock()
	changed := r.changed
	r.changed = map[*templateFile]bool{}
	r.mu.Unlock()
	signals := map[string]bool{}
	var scripts []*api.ChangeScript
	for _, f := range r.list {
		if !changed[f] {
			continue
		}
		switch f.ChangeMode {
		case changeByRestart, "":
			r.t.askOnce(restartRequest{reason: "Template with change_mode restart re-rendered"})
			return
		case changeBySignal:
			signals[f.ChangeSignal] = true
		case changeByScript:
			scripts = append(scripts, f.ChangeScript)
		}
	}
	for signal := range signals {
		r.t.emit(signaling(signal, "Template re-rendered"))
		if err := a.driver.Signal(ctx, a.id, signal); err != nil && ctx.Err() == nil {
			r.t.emit(message(api.EventSignaling, fmt.Sprintf("The task did not receive signal %s: %v", signal, err)))
		}
	}
	for _, script := range scripts {
		r.runScript(ctx, a, script)
	}
}

// scriptTimeout is used when a script sets none.
const scriptTimeout = 5 * time.Second

// runScript runs a script in the task, and reports how it ended.
func (r *templateRun) runScript(ctx context.Context, a *attempt, script *api.ChangeScript) {
	if script == nil {
		return
	}
	err := r.execScript(ctx, a, script)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		r.t.emit(message(eventTemplate, fmt.Sprintf("Template ran script %s with arguments %q", script.Command, script.Args)))
	default:
		text := fmt.Sprintf("Template failed to run script %s with arguments %q: %v", script.Command, script.Args, a.cred.hide(err))
		r.t.emit(message(eventTemplate, text))
		if script.FailOnError {
			r.t.askOnce(restartRequest{reason: text, counted: true, fatal: true})
		}
	}
}

func (r *templateRun) execScript(ctx context.Context, a *attempt, script *api.ChangeScript) error {
	e, ok := a.driver.(driver.Execer)
	if !ok || !a.driver.Capabilities().Exec {
		return fault.New(fault.Unimplemented, "driver %s runs no commands in tasks", a.spec.Driver)
	}
	timeout := script.Timeout
	if timeout <= 0 {
		timeout = scriptTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	args := []string{a.env.Replace(script.Command)}
	for _, arg := range script.Args {
		args = append(args, a.env.Replace(arg))
	}
	code, err := e.Exec(ctx, a.id, &driver.Command{Args: args})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.Timeout, "it has not ended after %v", timeout)
	case err != nil:
		return err
	case code != 0:
		return fault.New(fault.Invalid, "exit code %d", code)
	}
	return nil
}
