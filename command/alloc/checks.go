package alloc

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Checks is "nomad alloc checks".
func Checks(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "show the results of the checks of an allocation", Args: "<allocation>", Min: 1, Max: 1, Format: true,
		Flags: []cli.Flag{session.Verbose()},
		Run: func(ctx context.Context, s *session.Session) error {
			a, err := target(ctx, s)
			if err != nil {
				return err
			}
			all, err := s.AllocChecks(ctx, a.ID)
			if err != nil {
				return session.Failed("querying checks", err)
			}
			if s.Formatted() {
				return s.Document(all)
			}
			if len(all) == 0 {
				s.Println("No checks found")
				return nil
			}
			s.Print(view.Table(checkRows(all)...))
			return nil
		},
	}.Command()
}

// checkRows is the table of the checks by service and name.
func checkRows(all map[string]*api.AllocCheckStatus) [][]string {
	list := make([]*api.AllocCheckStatus, 0, len(all))
	for _, c := range all {
		if c != nil {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b *api.AllocCheckStatus) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Check, b.Check), cmp.Compare(a.ID, b.ID))
	})
	table := [][]string{{"Service", "Task", "Name", "Mode", "Status", "Last Probe", "Output"}}
	for _, c := range list {
		table = append(table, []string{
			c.Service, view.OrNone(c.Task), c.Check, c.Mode, c.Status, view.Time(time.Unix(c.Timestamp, 0)), view.Line(c.Output),
		})
	}
	return table
}

// showChecks shows the checks of a running allocation whose group has some.
func showChecks(ctx context.Context, s *session.Session, a *api.Allocation) {
	g := a.Group()
	if a.ClientStatus != api.AllocClientStatusRunning || g == nil {
		return
	}
	services := slices.Clone(g.Services)
	for _, t := range g.Tasks {
		services = append(services, t.Services...)
	}
	if !slices.ContainsFunc(services, func(v *api.Service) bool { return v != nil && len(v.Checks) > 0 }) {
		return
	}
	all, err := s.AllocChecks(ctx, a.ID)
	if err != nil {
		s.Warnf("Could not read the results of checks: %s", err)
		return
	}
	if rows := checkRows(all); len(rows) > 1 {
		s.Section("Checks:", rows...)
	}
}
