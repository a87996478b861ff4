package eval

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/rows"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Group is "nomad eval".
func Group() *cli.Command {
	return session.Group("eval", "list and delete evaluations", List("list"), Status("status"), Delete("delete"))
}

// Status is "nomad eval status".
func Status(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "show an evaluation", Args: "<evaluation>", Min: 1, Max: 1, Format: true,
		Flags: []cli.Flag{session.Verbose(), session.PageFlag(), &cli.BoolFlag{Name: "monitor", Usage: "monitor the evaluation until it completes"}},
		Run:   find.ListOr(nil, find.Eval, Show),
	}.Command()
}

// Show prints one evaluation.
func Show(ctx context.Context, s *session.Session, found *api.Evaluation) error {
	s.Client = s.In(found.Namespace)
	if s.Bool("monitor") {
		return monitor.Eval(ctx, s, found.ID)
	}
	e, _, err := s.Eval(ctx, found.ID, rest.Query{}.Related())
	if err != nil {
		return session.Failed("querying evaluation", err)
	}
	if s.Formatted() {
		return s.Document(e)
	}
	facts := [][2]string{
		{"ID", s.ID(e.ID)},
		{"Create Time", s.When(e.CreateTime)},
		{"Modify Time", s.When(e.ModifyTime)},
		{"Status", e.Status},
		{"Status Description", cmp.Or(e.StatusDescription, e.Status)},
		{"Type", e.Type},
		{"TriggeredBy", e.TriggeredBy},
		{"Job ID", e.JobID},
		{"Namespace", e.Namespace},
		{"Node ID", s.ID(e.NodeID)},
		{"Priority", strconv.Itoa(e.Priority)},
		{"Placement Failures", find.PlacementFailures(e)},
		{"Previous Eval", s.ID(e.PreviousEval)},
		{"Next Eval", s.ID(e.NextEval)},
		{"Blocked Eval", s.ID(e.BlockedEval)},
	}
	if e.DeploymentID != "" {
		facts = append(facts, [2]string{"Deployment ID", s.ID(e.DeploymentID)})
	}
	if !e.WaitUntil.IsZero() {
		facts = append(facts, [2]string{"Wait Until", view.Time(e.WaitUntil)})
	}
	s.Print(view.Pairs(facts...))
	if len(e.RelatedEvals) > 0 {
		table := [][]string{{"ID", "Priority", "Triggered By", "Node ID", "Status", "Description"}}
		for _, r := range e.RelatedEvals {
			table = append(table, []string{s.ID(r.ID), strconv.Itoa(r.Priority), r.TriggeredBy, view.OrNone(s.ID(r.NodeID)), r.Status, view.OrNone(r.StatusDescription)})
		}
		s.Section("Related Evaluations", table...)
	}
	if len(e.MissingNonNodeResources) > 0 {
		s.Titled("Missing Resources", view.List(e.MissingNonNodeResources))
	}
	if a := e.PlanAnnotations; s.Verbose && a != nil && len(a.DesiredTGUpdates) > 0 {
		s.Titled("Plan Annotations", rows.Updates(a.DesiredTGUpdates))
	}
	if err := showFailures(ctx, s, e); err != nil {
		return err
	}
	allocs, _, err := s.EvalAllocations(ctx, e.ID, rest.Query{})
	if err != nil {
		return session.Failed("querying allocations", err)
	}
	s.Titled("Placed Allocations", rows.Allocs(allocs, s.Verbose, time.Now()))
	return s.Page(ctx, "evaluation", "evaluations", e.ID)
}

// showFailures prints the placement failures of an evaluation. Those of a blocked evaluation are in the previous one.
func showFailures(ctx context.Context, s *session.Session, e *api.Evaluation) error {
	failed := e.FailedTGAllocs
	if e.Status == api.EvalStatusBlocked && len(failed) == 0 && e.PreviousEval != "" {
		before, _, err := s.Eval(ctx, e.PreviousEval, rest.Query{})
		if err != nil && !errors.Is(err, fault.NotFound) {
			return session.Failed("querying the previous evaluation", err)
		}
		if err == nil {
			failed = before.FailedTGAllocs
		}
	}
	switch {
	case len(failed) > 0 && s.Verbose:
		s.Titled("Failed Placements", rows.FailuresWithScores(failed))
	case len(failed) > 0:
		s.Titled("Failed Placements", rows.Failures(failed))
	}
	return nil
}
