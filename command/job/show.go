package job

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/rows"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// whole is everything that is known of one job.
type whole struct {
	Job              *api.Job
	Summary          *api.JobSummary
	Allocations      []*api.AllocStub
	LatestDeployment *api.Deployment
	Evaluations      []*api.Evaluation
}

// document prints everything in the asked format.
func document(ctx context.Context, s *session.Session, j *api.Job) error {
	w := whole{Job: j}
	var err error
	if w.Summary, _, err = s.JobSummary(ctx, j.ID, rest.Query{}); err != nil {
		return session.Failed("querying job summary", err)
	}
	if w.Allocations, _, err = s.JobAllocations(ctx, j.ID, s.Bool("all-allocs"), rest.Query{}); err != nil {
		return session.Failed("querying job allocations", err)
	}
	if w.LatestDeployment, err = s.JobDeployment(ctx, j.ID); err != nil {
		return session.Failed("querying latest job deployment", err)
	}
	if w.Evaluations, _, err = s.JobEvaluations(ctx, j.ID, rest.Query{}); err != nil {
		return session.Failed("querying job evaluations", err)
	}
	return s.Document([]whole{w})
}

func summary(ctx context.Context, s *session.Session, j *api.Job) error {
	sum, _, err := s.JobSummary(ctx, j.ID, rest.Query{})
	if err != nil {
		return session.Failed("querying job summary", err)
	}
	table := [][]string{{"Task Group", "Queued", "Starting", "Running", "Failed", "Complete", "Lost", "Unknown"}}
	for _, g := range slices.Sorted(maps.Keys(sum.Summary)) {
		n := sum.Summary[g]
		row := []string{g}
		for _, x := range []int{n.Queued, n.Starting, n.Running, n.Failed, n.Complete, n.Lost, n.Unknown} {
			row = append(row, strconv.Itoa(x))
		}
		table = append(table, row)
	}
	s.Section("Summary", table...)
	return nil
}

// evaluations shows evaluations when asked for, and always why something is not placed.
func evaluations(ctx context.Context, s *session.Session, j *api.Job) error {
	evals, _, err := s.JobEvaluations(ctx, j.ID, rest.Query{})
	if err != nil {
		return session.Failed("querying job evaluations", err)
	}
	slices.SortStableFunc(evals, func(a, b *api.Evaluation) int { return cmp.Compare(b.CreateIndex, a.CreateIndex) })
	if s.Bool("evals") || s.Verbose {
		table := [][]string{{"ID", "Priority", "Triggered By", "Status", "Placement Failures"}}
		for _, e := range evals {
			table = append(table, []string{s.ID(e.ID), strconv.Itoa(e.Priority), e.TriggeredBy, e.Status, find.PlacementFailures(e)})
		}
		s.Section("Evaluations", table...)
	}
	if i := slices.IndexFunc(evals, func(e *api.Evaluation) bool { return e.Status == api.EvalStatusBlocked }); i >= 0 && !j.Stop {
		placementFailure(s, evals[i], evals)
	}
	return nil
}

// placementFailure prints why a job is blocked, from the evaluation that has the failed placements.
func placementFailure(s *session.Session, blocked *api.Evaluation, evals []*api.Evaluation) {
	s.Print("\nPlacement Failure\n")
	for _, e := range evals {
		if len(e.FailedTGAllocs) > 0 && (e.ID == blocked.ID || e.BlockedEval == blocked.ID || e.ID == blocked.PreviousEval) {
			s.Print(rows.Failures(e.FailedTGAllocs))
			return
		}
	}
	s.Println(fmt.Sprintf("%s, see: nomad eval status %s", view.OrNone(blocked.StatusDescription), s.ID(blocked.ID)))
}
