package node

import (
	"context"
	"slices"
	"strconv"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Status is "nomad node status".
func Status(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list nodes, or show one", Args: "[<node>]", Max: 1, Format: true,
		Flags: []cli.Flag{
			session.Verbose(), session.PageFlag(),
			&cli.BoolFlag{Name: "self", Usage: "use the node of the contacted agent"},
			&cli.BoolFlag{Name: "short", Usage: "show basic information only"},
			&cli.BoolFlag{Name: "stats", Usage: "show detailed resource usage"},
			&cli.BoolFlag{Name: "allocs", Usage: "count running allocations in the list"},
			&cli.BoolFlag{Name: "os", Usage: "show the operating system in the list"},
			&cli.BoolFlag{Name: "quiet", Usage: "print ids only"},
			&cli.StringFlag{Name: "filter", Usage: "list only what matches the filter `expression`"},
			&cli.IntFlag{Name: "per-page", Usage: "number of `rows` per page"},
			&cli.StringFlag{Name: "page-token", Usage: "start at the page with this `token`"},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			if len(s.Args) == 0 && !s.Bool("self") {
				return list(ctx, s)
			}
			id, err := target(ctx, s)
			if err != nil {
				return err
			}
			return Show(ctx, s, id)
		},
	}.Command()
}

func list(ctx context.Context, s *session.Session) error {
	q := rest.Query{Filter: s.String("filter"), PerPage: s.Int("per-page"), NextToken: s.String("page-token")}
	q.Params = map[string][]string{"os": {strconv.FormatBool(s.Bool("os"))}}
	nodes, meta, err := s.Nodes(ctx, q)
	if err != nil {
		return session.Failed("querying node status", err)
	}
	if s.Formatted() {
		return s.Document(nodes)
	}
	if len(nodes) == 0 {
		s.Println("No nodes registered")
		return nil
	}
	if s.Bool("quiet") {
		for _, n := range nodes {
			s.Println(n.ID)
		}
		return nil
	}
	table := [][]string{listHead(s)}
	for _, n := range nodes {
		row, err := listRow(ctx, s, n)
		if err != nil {
			return err
		}
		table = append(table, row)
	}
	s.Print(view.Table(table...))
	if meta.NextToken != "" {
		s.Printf("\nMore results: nomad node status -page-token %s\n", meta.NextToken)
	}
	return nil
}

func listHead(s *session.Session) []string {
	head := []string{"ID", "Node Pool", "DC", "Name", "Class"}
	if s.Bool("os") {
		head = append(head, "OS")
	}
	if s.Verbose {
		head = append(head, "Address", "Version")
	}
	head = append(head, "Drain", "Eligibility", "Status")
	if s.Bool("allocs") {
		head = append(head, "Running Allocs")
	}
	return head
}

func listRow(ctx context.Context, s *session.Session, n *api.NodeStub) ([]string, error) {
	row := []string{s.ID(n.ID), n.NodePool, n.Datacenter, n.Name, view.OrNone(n.NodeClass)}
	if s.Bool("os") {
		row = append(row, view.OrNone(n.Attributes["os.name"]))
	}
	if s.Verbose {
		row = append(row, n.Address, n.Version)
	}
	row = append(row, strconv.FormatBool(n.Drain), n.SchedulingEligibility, n.Status)
	if s.Bool("allocs") {
		allocs, _, err := s.NodeAllocations(ctx, n.ID, rest.Query{})
		if err != nil {
			return nil, session.Failed("querying allocations", err)
		}
		running := slices.DeleteFunc(allocs, func(a *api.Allocation) bool { return a.ClientStatus != api.AllocClientStatusRunning })
		row = append(row, strconv.Itoa(len(running)))
	}
	return row, nil
}
