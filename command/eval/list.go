package eval

import (
	"context"
	"strconv"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// List is "nomad eval list".
func List(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list evaluations", Format: true,
		Flags: []cli.Flag{
			session.Verbose(), session.PageFlag(),
			&cli.StringFlag{Name: "job", Usage: "list only those of this `job`"},
			&cli.StringFlag{Name: "status", Usage: "list only those with this `status`"},
			&cli.StringFlag{Name: "filter", Usage: "list only what matches the filter `expression`"},
			&cli.IntFlag{Name: "per-page", Usage: "number of `rows` per page"},
			&cli.StringFlag{Name: "page-token", Usage: "start at the page with this `token`"},
		},
		Run: list,
	}.Command()
}

func list(ctx context.Context, s *session.Session) error {
	q := rest.Query{Filter: s.String("filter"), PerPage: s.Int("per-page"), NextToken: s.String("page-token"), Reverse: true}
	q.Params = map[string][]string{"job": {s.String("job")}, "status": {s.String("status")}}
	evals, meta, err := s.Evals(ctx, q)
	if err != nil {
		return session.Failed("querying evaluations", err)
	}
	if s.Formatted() {
		return s.Document(evals)
	}
	if len(evals) == 0 {
		s.Println("No evals found")
		return s.Page(ctx, "evaluations", "evaluations")
	}
	table := [][]string{{"ID", "Priority", "Triggered By", "Job ID", "Namespace", "Node ID", "Status", "Placement Failures"}}
	for _, e := range evals {
		table = append(table, []string{
			s.ID(e.ID), strconv.Itoa(e.Priority), e.TriggeredBy, e.JobID, e.Namespace,
			view.OrNone(s.ID(e.NodeID)), e.Status, find.PlacementFailures(e),
		})
	}
	s.Print(view.Table(table...))
	if meta.NextToken != "" {
		s.Printf("\nMore results: nomad eval list -page-token %s\n", meta.NextToken)
	}
	return s.Page(ctx, "evaluations", "evaluations")
}
