package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// ask is the value of -batch-wait and -on-error that leaves the decision to the user.
const ask = "ask"

// Restart is "nomad job restart".
func Restart(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "restart the allocations of a job, some at a time", Args: "<job>", Min: 1, Max: 1,
		Description: "Tasks are restarted in place. With -reschedule allocations are stopped and replaced, possibly on\n" +
			"other nodes, and each batch is over when its replacements run.",
		Flags: []cli.Flag{
			session.Verbose(),
			&cli.StringFlag{Name: "batch-size", Value: "1", Usage: "`number` of allocations per batch, or a percentage such as 20%"},
			&cli.StringFlag{Name: "batch-wait", Value: "0s", Usage: "`time` between two batches; ask waits for confirmation"},
			&cli.StringFlag{Name: "on-error", Value: ask, Usage: "`action` when an allocation fails to restart: ask or fail"},
			&cli.BoolFlag{Name: "reschedule", Usage: "replace allocations instead of restarting their tasks"},
			&cli.BoolFlag{Name: "all-tasks", Usage: "also restart tasks that have ended"},
			&cli.BoolFlag{Name: "no-shutdown-delay", Usage: "with -reschedule: do not wait for shutdown delays"},
			&cli.StringSliceFlag{Name: "group", Usage: "only this `group`; may be repeated"},
			&cli.StringSliceFlag{Name: "task", Usage: "only this `task`; may be repeated"},
			&cli.BoolFlag{Name: "yes", Usage: "do not ask for confirmation, and continue after errors"},
		},
		Run: restart,
	}.Command()
}

// rollout is one run of "job restart".
type rollout struct {
	*session.Session
	size, percent int
	pause         time.Duration
	asks, fails   bool // between batches; on the first error
}

func restart(ctx context.Context, s *session.Session) error {
	r, err := newRollout(s)
	if err != nil {
		return err
	}
	j, err := find.Job(ctx, s, s.Arg(0))
	if err != nil {
		return err
	}
	if j.Stop || j.Periodic || j.ParameterizedJob {
		return fault.New(fault.Invalid, "job %q has no allocations of its own to restart: it is stopped, periodic or parameterized", j.ID)
	}
	s.Client = s.In(j.Namespace)
	allocs, err := r.allocs(ctx, j.ID)
	if err != nil {
		return err
	}
	if len(allocs) == 0 {
		s.Println("No allocations to restart")
		return nil
	}
	size := r.size
	if r.percent > 0 {
		size = max(1, len(allocs)*r.percent/100)
	}
	s.Printf("==> %s: Restarting %s of job %q, %d at a time\n", view.Time(time.Now()), many(len(allocs)), j.ID, size)
	return r.batches(ctx, slices.Collect(slices.Chunk(allocs, size)))
}

func many(n int) string {
	if n == 1 {
		return "1 allocation"
	}
	return strconv.Itoa(n) + " allocations"
}

// newRollout reads the flags.
func newRollout(s *session.Session) (*rollout, error) {
	r := &rollout{Session: s}
	text, share := strings.CutSuffix(s.String("batch-size"), "%")
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 || share && n > 100 {
		return nil, fault.New(fault.Invalid, "-batch-size %q is neither a positive number nor a percentage from 1%% to 100%%", s.String("batch-size"))
	}
	if r.size = n; share {
		r.size, r.percent = 0, n
	}
	switch wait := s.String("batch-wait"); wait {
	case ask:
		r.asks = !s.Bool("yes")
	default:
		if r.pause, err = time.ParseDuration(wait); err != nil || r.pause < 0 {
			return nil, fault.New(fault.Invalid, "-batch-wait %q is neither a duration such as 30s nor ask", wait)
		}
	}
	switch s.String("on-error") {
	case ask:
	case "fail":
		r.fails = true
	default:
		return nil, fault.New(fault.Invalid, "-on-error %q is neither ask nor fail", s.String("on-error"))
	}
	switch whole := s.Bool("reschedule"); {
	case whole && (s.Bool("all-tasks") || len(s.Strings("task")) > 0):
		return nil, fault.New(fault.Invalid, "-reschedule replaces whole allocations and cannot be combined with -task or -all-tasks")
	case !whole && s.Bool("no-shutdown-delay"):
		return nil, fault.New(fault.Invalid, "-no-shutdown-delay requires -reschedule")
	case s.Bool("all-tasks") && len(s.Strings("task")) > 0:
		return nil, fault.New(fault.Invalid, "-all-tasks and -task cannot be combined")
	}
	return r, nil
}

// allocs lists what is to be restarted, by name.
func (r *rollout) allocs(ctx context.Context, job string) ([]*api.AllocStub, error) {
	all, _, err := r.JobAllocations(ctx, job, false, rest.Query{})
	if err != nil {
		return nil, session.Failed("retrieving allocations", err)
	}
	groups, tasks := r.Strings("group"), r.Strings("task")
	all = slices.DeleteFunc(all, func(a *api.AllocStub) bool {
		return a.DesiredStatus != api.AllocDesiredStatusRun || a.ClientStatus != api.AllocClientStatusRunning ||
			len(groups) > 0 && !slices.Contains(groups, a.TaskGroup) ||
			len(tasks) > 0 && !slices.ContainsFunc(tasks, func(t string) bool { return a.TaskStates[t] != nil })
	})
	slices.SortStableFunc(all, func(a, b *api.AllocStub) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func (r *rollout) batches(ctx context.Context, batches [][]*api.AllocStub) error {
	failed := 0
	for i, batch := range batches {
		r.Printf("==> %s: Batch %d of %d\n", view.Time(time.Now()), i+1, len(batches))
		live := r.Live(fmt.Sprintf("Batch %d of %d", i+1, len(batches)))
		err := r.batch(ctx, batch)
		live.End()
		last := i == len(batches)-1
		if err != nil {
			failed++
			r.Warnf("%s", err)
			if r.fails || ctx.Err() != nil {
				return &session.Exit{Code: 1, Text: "Job restart stopped after an error"}
			}
		}
		if last {
			break
		}
		if err := r.between(ctx, err != nil); err != nil {
			return err
		}
	}
	if failed > 0 {
		return &session.Exit{Code: 1, Text: fmt.Sprintf("Job restart finished with errors in %d of %d batches", failed, len(batches))}
	}
	r.Printf("==> %s: Job restart finished\n", view.Time(time.Now()))
	return nil
}

// between asks or waits before the next batch.
func (r *rollout) between(ctx context.Context, failed bool) error {
	question := ""
	switch {
	case failed && !r.Bool("yes"):
		question = "Go on with the next batch all the same?"
	case r.asks:
		question = "Go on with the next batch?"
	}
	if question != "" {
		sure, err := r.Confirm(question)
		if err != nil {
			return err
		}
		if !sure {
			return &session.Exit{Code: 1, Text: "Job restart canceled"}
		}
	}
	if r.pause == 0 {
		return nil
	}
	r.Printf("    %s: Waiting %s before the next batch\n", view.Time(time.Now()), r.pause)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(r.pause):
		return nil
	}
}

// batch restarts some allocations at once.
func (r *rollout) batch(ctx context.Context, allocs []*api.AllocStub) error {
	errs := make([]error, len(allocs))
	var wg sync.WaitGroup
	for i, a := range allocs {
		r.Printf("    %s: Restarting allocation %q, group %q\n", view.Time(time.Now()), r.ID(a.ID), a.TaskGroup)
		wg.Go(func() {
			if r.Bool("reschedule") {
				errs[i] = r.replace(ctx, a)
			} else {
				errs[i] = r.inPlace(ctx, a)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (r *rollout) inPlace(ctx context.Context, a *api.AllocStub) error {
	before, _, err := r.Alloc(ctx, a.ID, rest.Query{})
	if err != nil {
		return session.Failed("reading allocation "+r.ID(a.ID), err)
	}
	tasks := r.Strings("task")
	if len(tasks) == 0 {
		tasks = []string{""}
	}
	for _, t := range tasks {
		if t != "" && a.TaskStates[t] == nil {
			continue
		}
		if err := r.RestartAlloc(ctx, a.ID, t, r.Bool("all-tasks")); err != nil {
			return session.Failed("restarting allocation "+r.ID(a.ID), err)
		}
	}
	return r.restarted(ctx, before)
}

// restarted waits until the tasks that are meant were started again.
func (r *rollout) restarted(ctx context.Context, before *api.Allocation) error {
	waiting, only := map[string]uint64{}, r.Strings("task")
	for name, t := range before.TaskStates {
		if (t.State == api.TaskStateRunning || r.Bool("all-tasks")) && (len(only) == 0 || slices.Contains(only, name)) {
			waiting[name] = t.Restarts
		}
	}
	return r.until(ctx, before.ID, func(a *api.Allocation) bool {
		for name, restarts := range waiting {
			if t := a.TaskStates[name]; t == nil || t.Restarts <= restarts || t.State == api.TaskStatePending {
				return false
			}
		}
		return true
	})
}

// replace stops an allocation and waits until what follows it runs.
func (r *rollout) replace(ctx context.Context, a *api.AllocStub) error {
	out, err := r.StopAlloc(ctx, a.ID, r.Bool("no-shutdown-delay"))
	if err != nil {
		return session.Failed("stopping allocation "+r.ID(a.ID), err)
	}
	if err := r.evaluated(ctx, a, out.EvalID); err != nil {
		return err
	}
	var index uint64
	for {
		now, meta, err := r.Alloc(ctx, a.ID, rest.Query{Index: index, Wait: look})
		if err != nil {
			return session.Failed("reading allocation "+r.ID(a.ID), err)
		}
		if index = meta.Index; now.NextAllocation != "" {
			return r.running(ctx, now.NextAllocation)
		}
	}
}

// evaluated waits until the servers have placed what follows an allocation.
func (r *rollout) evaluated(ctx context.Context, a *api.AllocStub, id string) error {
	var index uint64
	for id != "" {
		e, meta, err := r.Eval(ctx, id, rest.Query{Index: index, Wait: look})
		if err != nil {
			return session.Failed("reading evaluation "+r.ID(id), err)
		}
		switch index = meta.Index; {
		case len(e.FailedTGAllocs) > 0 || e.Status == api.EvalStatusBlocked:
			return fault.New(fault.Exhausted, "no replacement could be placed for allocation %s: see nomad eval status %s", r.ID(a.ID), r.ID(id))
		case e.Terminal():
			return nil
		}
	}
	return nil
}

// running waits until an allocation runs.
func (r *rollout) running(ctx context.Context, id string) error {
	return r.until(ctx, id, func(a *api.Allocation) bool { return a.ClientStatus == api.AllocClientStatusRunning })
}

// until waits for something of an allocation that has not ended.
func (r *rollout) until(ctx context.Context, id string, done func(*api.Allocation) bool) error {
	var index uint64
	for {
		a, meta, err := r.Alloc(ctx, id, rest.Query{Index: index, Wait: look})
		if err != nil {
			return session.Failed("reading allocation "+r.ID(id), err)
		}
		switch index = meta.Index; {
		case a.ClientStatus != api.AllocClientStatusRunning && a.ClientStatus != api.AllocClientStatusPending:
			return fault.New(fault.Conflict, "allocation %s is %s: %s", r.ID(id), view.Inline(a.ClientStatus), view.Inline(view.OrNone(a.ClientDescription)))
		case done(a):
			return nil
		}
	}
}
