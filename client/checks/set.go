package checks

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

const (
	// probesMax and allocProbesMax are how many probes run at once on the node and in one allocation.
	probesMax, allocProbesMax = 128, 16
	// jitterShare makes the first probe wait for a random part of the interval: at most a quarter.
	jitterShare = 4
)

// Prober makes the sets of this node.
type Prober struct {
	conf  Config
	slots chan struct{}
}

// Config is what a prober needs.
type Config struct {
	// Replace returns a function that replaces references in texts as a task of the allocation would; the name may be empty.
	Replace func(a *api.Allocation, task string) func(string) string
	// Address returns the address of the node.
	Address func() string
	// Jitter returns a random duration below its argument.
	Jitter func(time.Duration) time.Duration
}

// New makes the prober of a node.
func New(c Config) *Prober { return &Prober{c, make(chan struct{}, probesMax)} }

// Tasks are the tasks of the allocation.
type Tasks interface {
	States() map[string]*api.TaskState
	// RestartFailed restarts a running task as after a failure.
	RestartFailed(task, reason string)
	// RunScript runs a program with its arguments in a running task and returns its exit code. References in the arguments
	// are replaced. The program is killed when ctx ends, and the error is that of ctx.
	RunScript(ctx context.Context, task string, args []string, out io.Writer) (code int, err error)
}

// Set holds the checks of one allocation.
type Set struct {
	*Prober
	tasks   Tasks
	changed func()
	slots   chan struct{}
	wake    chan struct{}

	mu    sync.Mutex
	alloc *api.Allocation
	order []string
	runs  map[string]*run
	// asked is the start of each task that a restart was asked for.
	asked map[string]string
}

// Set makes the checks of an allocation; nothing is probed before [Set.Run]. changed is called after each change of a status
// and does not block.
func (p *Prober) Set(a *api.Allocation, tasks Tasks, changed func()) *Set {
	s := &Set{
		Prober: p, tasks: tasks, changed: changed, slots: make(chan struct{}, allocProbesMax), wake: make(chan struct{}, 1),
		runs: map[string]*run{}, asked: map[string]string{},
	}
	s.Update(a)
	return s
}

// run is a check with what is known of it. mu of the set guards the status.
type run struct {
	*check
	pulse  chan struct{}
	cancel context.CancelFunc

	status api.AllocCheckStatus
	// since is the time of the last change between statuses that count as healthy and those that do not.
	since time.Time
	// passes and failures are the probes in a row with the same outcome; afterGrace are the failures after the grace.
	passes, failures, afterGrace int
	// began is the start of the tasks that is probed, empty while they do not run; graceEnd is when its grace ends.
	began    string
	graceEnd time.Time
}

func (r *run) reset(began string, now time.Time) {
	r.began, r.passes, r.failures, r.afterGrace = began, 0, 0, 0
	if r.restart != nil {
		r.graceEnd = now.Add(r.restart.Grace)
	}
	r.become(r.initial(), now)
	r.status.Output, r.status.StatusCode = "nomad: waiting to run", 0
}

func (r *run) initial() string {
	switch r.spec.InitialStatus {
	case "passing":
		return api.CheckSuccess
	case "warning":
		return api.CheckWarning
	case "critical":
		return api.CheckFailure
	}
	return api.CheckPending
}

func (r *run) become(status string, now time.Time) {
	if r.healthy(status) != r.healthy(r.status.Status) {
		r.since = now
	}
	r.status.Status = status
}

// healthy reports whether an allocation whose check has the status can be healthy.
func (r *run) healthy(status string) bool {
	return status == api.CheckSuccess || status == api.CheckWarning && r.spec.OnUpdate == "ignore_warnings"
}

// Update takes a new version of the allocation. Checks that did not change keep their status.
func (s *Set) Update(a *api.Allocation) {
	checks := list(a, s.conf.Address(), func(task string) func(string) string { return s.conf.Replace(a, task) })
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.runs
	s.alloc, s.order, s.runs = a, nil, make(map[string]*run, len(checks))
	for _, c := range checks {
		if s.runs[c.id] != nil {
			continue
		}
		r := old[c.id]
		if r == nil {
			r = &run{check: c, pulse: make(chan struct{}, 1)}
			r.status = api.AllocCheckStatus{
				ID: c.id, Check: c.spec.Name, Group: a.Name, Service: c.service, Task: c.task, Mode: api.CheckHealthiness,
				Timestamp: time.Now().Unix(),
			}
			if c.spec.OnUpdate == "ignore" {
				r.status.Mode = api.CheckReadiness
			}
			r.reset("", time.Now())
		}
		s.runs[c.id] = r
		s.order = append(s.order, c.id)
		delete(old, c.id)
	}
	for _, r := range old {
		if r.cancel != nil {
			r.cancel()
		}
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run probes until ctx ends. It may be called once.
func (s *Set) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		s.mu.Lock()
		for _, id := range s.order {
			if r := s.runs[id]; r.cancel == nil {
				var probing context.Context
				probing, r.cancel = context.WithCancel(ctx)
				all.Go(func() { s.follow(probing, r) })
			}
		}
		s.mu.Unlock()
		select {
		case <-s.wake:
		case <-ctx.Done():
			return
		}
	}
}

// TasksChanged is called after each change of a task. It does not block.
func (s *Set) TasksChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		select {
		case r.pulse <- struct{}{}:
		default:
		}
	}
}

// Results returns the status of each check by its id.
func (s *Set) Results() map[string]*api.AllocCheckStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]*api.AllocCheckStatus, len(s.runs))
	for id, r := range s.runs {
		status := r.status
		out[id] = &status
	}
	return out
}

// Passing reports whether all checks that count for the health pass, and for how long they have. Without any such check they
// have always passed.
func (s *Set) Passing() (all bool, span time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var last time.Time
	for _, r := range s.runs {
		if r.status.Mode != api.CheckHealthiness {
			continue
		}
		if !r.healthy(r.status.Status) {
			return false, 0
		}
		if r.since.After(last) {
			last = r.since
		}
	}
	if last.IsZero() {
		return true, math.MaxInt64
	}
	return true, time.Since(last)
}

// follow probes one check until ctx ends.
func (s *Set) follow(ctx context.Context, r *run) {
	probe := r.probe(s.tasks)
	timer := time.NewTimer(0)
	defer timer.Stop()
	timer.Stop()
	for {
		if began := s.start(r.task); began != r.began {
			s.mu.Lock()
			r.reset(began, time.Now())
			s.mu.Unlock()
			s.changed()
			timer.Stop()
			if began != "" {
				timer.Reset(s.conf.Jitter(r.spec.Interval / jitterShare))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-r.pulse:
		case <-timer.C:
			if got, ok := s.once(ctx, r, probe); ok {
				s.record(r, got)
			}
			timer.Reset(r.spec.Interval)
		}
	}
}

// once probes once, when there is a free slot. It reports false when ctx ended before the result.
func (s *Set) once(ctx context.Context, r *run, probe func(context.Context) outcome) (outcome, bool) {
	for _, slots := range []chan struct{}{s.slots, s.Prober.slots} {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return outcome{}, false
		}
	}
	limited, cancel := context.WithTimeout(ctx, r.spec.Timeout)
	defer cancel()
	got := probe(limited)
	return got, ctx.Err() == nil
}

// record counts the outcome of a probe and restarts the task when the check asks for that.
func (s *Set) record(r *run, got outcome) {
	now := time.Now()
	s.mu.Lock()
	before := r.status.Status
	r.status.Output, r.status.StatusCode, r.status.Timestamp = got.output, got.code, now.Unix()
	r.count(got, now)
	changed := r.status.Status != before
	restart := r.restart != nil && r.restart.Limit > 0 && r.afterGrace >= r.restart.Limit
	if restart {
		r.afterGrace = 0
	}
	s.mu.Unlock()
	if changed {
		s.changed()
	}
	if restart {
		s.restartTasks(r)
	}
}

// count counts the outcome of a probe.
func (r *run) count(got outcome, now time.Time) {
	switch {
	case got.passed:
		r.passes, r.failures, r.afterGrace = r.passes+1, 0, 0
		if r.passes >= max(1, r.spec.SuccessBeforePassing) {
			r.become(api.CheckSuccess, now)
		}
		return
	case got.warned:
		r.passes, r.failures = 0, 0
		r.become(api.CheckWarning, now)
		if r.restart != nil && r.restart.IgnoreWarnings {
			r.afterGrace = 0
			return
		}
	default:
		r.passes, r.failures = 0, r.failures+1
		if r.failures >= max(1, r.spec.FailuresBeforeCritical) {
			r.become(api.CheckFailure, now)
		}
	}
	if !now.Before(r.graceEnd) {
		r.afterGrace++
	}
}

// restartTasks restarts the tasks that a check depends on, once for each start of a task.
func (s *Set) restartTasks(r *run) {
	states := s.tasks.States()
	for _, name := range s.needed(r.task) {
		state := states[name]
		if state == nil || state.State != api.TaskStateRunning {
			continue
		}
		began := startOf(state)
		s.mu.Lock()
		repeated := s.asked[name] == began
		s.asked[name] = began
		s.mu.Unlock()
		if !repeated {
			s.tasks.RestartFailed(name, fmt.Sprintf("healthcheck: check %q unhealthy", r.spec.Name))
		}
	}
}

// start identifies the present start of the tasks that a check depends on; it is empty while one of them is still to start, or
// none runs.
func (s *Set) start(task string) string {
	var out strings.Builder
	states := s.tasks.States()
	for _, name := range s.needed(task) {
		switch state := states[name]; {
		case state == nil || state.State == api.TaskStatePending:
			return ""
		case state.State == api.TaskStateRunning:
			out.WriteString(name + " " + startOf(state) + "\n")
		}
	}
	return out.String()
}

// startOf identifies the start of a running task.
func startOf(s *api.TaskState) string {
	return strconv.FormatInt(s.StartedAt.UnixNano(), 10) + " " + strconv.FormatUint(s.Restarts, 10)
}

// needed lists the tasks that a check depends on: the given one, or all main tasks.
func (s *Set) needed(task string) (names []string) {
	if task != "" {
		return []string{task}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.alloc.Group(); g != nil {
		for _, t := range g.Tasks {
			if t.Lifecycle == nil || t.Lifecycle.Hook == "" {
				names = append(names, t.Name)
			}
		}
	}
	return names
}
