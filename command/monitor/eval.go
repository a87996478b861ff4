package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/rows"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// lookAgain bounds how long one blocking read of an evaluation waits.
const lookAgain = 2 * time.Second

// watch is the state that was printed so far.
type watch struct {
	s          *session.Session
	status     string
	job        string
	node       string
	deployment string
	allocs     map[string]string // id -> client status
	only       bool              // not the deployment
}

// Eval follows an evaluation to its end, and then the deployment that it belongs to.
func Eval(ctx context.Context, s *session.Session, id string) error {
	return (&watch{s: s, status: api.EvalStatusPending, allocs: map[string]string{}}).follow(ctx, id)
}

// EvalOnly follows an evaluation, and no deployment: for changes that end one.
func EvalOnly(ctx context.Context, s *session.Session, id string) error {
	return (&watch{s: s, status: api.EvalStatusPending, allocs: map[string]string{}, only: true}).follow(ctx, id)
}

func (w *watch) follow(ctx context.Context, id string) error {
	s := w.s
	w.head("Monitoring evaluation %q", s.ID(id))
	live := s.Live("Evaluation " + s.ID(id))
	defer live.End()
	var index uint64
	for {
		e, meta, err := s.Eval(ctx, id, rest.Query{Index: index, Wait: lookAgain})
		switch {
		case errors.Is(err, fault.NotFound):
			return fault.New(fault.NotFound, "No evaluation with ID %q found", id)
		case err != nil:
			return session.Failed("reading evaluation", err)
		}
		index = meta.Index
		if err := w.report(ctx, e); err != nil {
			return err
		}
		if e.Status == api.EvalStatusBlocked {
			w.head("Evaluation %q is blocked until there is capacity", s.ID(id))
			return &session.Exit{Code: 2}
		}
		if e.Terminal() {
			live.End()
			return w.finish(ctx, e)
		}
	}
}

func (w *watch) head(format string, args ...any) {
	w.s.Printf("==> %s: %s\n", view.Time(time.Now()), fmt.Sprintf(format, args...))
}

func (w *watch) line(format string, args ...any) {
	w.s.Printf("    %s: %s\n", view.Time(time.Now()), fmt.Sprintf(format, args...))
}

// report prints what is new in an evaluation and its allocations.
func (w *watch) report(ctx context.Context, e *api.Evaluation) error {
	if w.node == "" && w.job == "" {
		if w.node = e.NodeID; e.NodeID != "" {
			w.line("Evaluation triggered by node %q", w.s.ID(e.NodeID))
		}
		if w.job = e.JobID; e.JobID != "" {
			w.line("Evaluation triggered by job %q", e.JobID)
		}
	}
	allocs, _, err := w.s.EvalAllocations(ctx, e.ID, rest.Query{})
	if err != nil {
		return session.Failed("reading allocations", err)
	}
	slices.SortStableFunc(allocs, func(a, b *api.AllocStub) int { return cmp.Compare(a.Name, b.Name) })
	for _, a := range allocs {
		w.alloc(e, a)
	}
	if e.DeploymentID != "" && w.deployment == "" {
		w.deployment = e.DeploymentID
		w.line("Evaluation within deployment: %q", w.s.ID(e.DeploymentID))
	}
	if e.Status != w.status {
		w.line("Evaluation status changed: %q -> %q", w.status, e.Status)
		w.status = e.Status
	}
	return nil
}

func (w *watch) alloc(e *api.Evaluation, a *api.AllocStub) {
	before, known := w.allocs[a.ID]
	w.allocs[a.ID] = a.ClientStatus
	switch {
	case known:
	case a.CreateIndex < e.CreateIndex:
		w.line("Allocation %q modified: node %q, group %q", w.s.ID(a.ID), w.s.ID(a.NodeID), a.TaskGroup)
		before = a.ClientStatus
	default:
		w.line("Allocation %q created: node %q, group %q", w.s.ID(a.ID), w.s.ID(a.NodeID), a.TaskGroup)
		before = api.AllocClientStatusPending
	}
	if before == a.ClientStatus {
		return
	}
	note := ""
	if a.ClientDescription != "" {
		note = " (" + a.ClientDescription + ")"
	}
	w.line("Allocation %q status changed: %q -> %q%s", w.s.ID(a.ID), before, a.ClientStatus, note)
}

// finish prints the outcome and follows the next evaluation or the deployment.
func (w *watch) finish(ctx context.Context, e *api.Evaluation) error {
	if len(e.FailedTGAllocs) == 0 {
		w.head("Evaluation %q finished with status %q", w.s.ID(e.ID), e.Status)
	} else {
		w.head("Evaluation %q finished with status %q but failed to place all allocations:", w.s.ID(e.ID), e.Status)
		w.s.Print(view.Indent(rows.Failures(e.FailedTGAllocs), 4))
		if e.BlockedEval != "" {
			w.line("Evaluation %q waiting for additional capacity to place remainder", w.s.ID(e.BlockedEval))
		}
	}
	if e.Status == api.EvalStatusFailed && e.NextEval != "" {
		w.line("%s: evaluation %q follows", e.StatusDescription, w.s.ID(e.NextEval))
		return Eval(ctx, w.s, e.NextEval)
	}
	if !w.only && e.DeploymentID != "" && e.Status == api.EvalStatusComplete && len(e.FailedTGAllocs) == 0 {
		return Deployment(ctx, w.s, e.DeploymentID)
	}
	if len(e.FailedTGAllocs) > 0 || e.Status != api.EvalStatusComplete {
		return &session.Exit{Code: 2}
	}
	return nil
}
