package volume

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// ClaimList is "nomad volume claim list".
func ClaimList(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list which allocations keep which sticky host volumes", Args: "[<claim>]", Max: 1, Format: true,
		Flags: []cli.Flag{
			session.Verbose(),
			&cli.StringFlag{Name: "job", Usage: "of one `job` only"},
			&cli.StringFlag{Name: "group", Usage: "of one task `group` only"},
			&cli.StringFlag{Name: "volume-name", Usage: "on volumes with one `name` only"},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			q := rest.Query{Prefix: s.Arg(0), Params: map[string][]string{}}
			for flag, param := range map[string]string{"job": "job_id", "group": "task_group", "volume-name": "volume_name"} {
				if value := s.String(flag); value != "" {
					q.Params[param] = []string{value}
				}
			}
			claims, _, err := s.HostVolumeClaims(ctx, q)
			if err != nil {
				return session.Failed("querying claims", err)
			}
			if s.Formatted() {
				return s.Document(claims)
			}
			if len(claims) == 0 {
				s.Warnf("No claims on sticky host volumes")
				return nil
			}
			s.Print(claimTable(s, claims))
			return nil
		},
	}.Command()
}

func claimTable(s *session.Session, claims []*api.HostVolumeClaim) string {
	table := [][]string{{"ID", "Namespace", "Job ID", "Volume ID", "Volume Name", "Task Group", "Alloc ID"}}
	for _, c := range claims {
		table = append(table, []string{s.ID(c.ID), c.Namespace, c.JobID, s.ID(c.VolumeID), c.VolumeName, c.TaskGroupName, s.ID(c.AllocID)})
	}
	return view.Table(table...)
}

// ClaimDelete is "nomad volume claim delete".
func ClaimDelete(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "let the next allocation get another sticky host volume", Args: "<claim>", Min: 1, Max: 1,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "y", Usage: "do not ask"}},
		Run: func(ctx context.Context, s *session.Session) error {
			claims, _, err := s.HostVolumeClaims(ctx, rest.Query{Prefix: s.Arg(0)})
			switch {
			case err != nil:
				return session.Failed("querying claims", err)
			case len(claims) == 0:
				return fault.New(fault.NotFound, "there is no claim with the id %q: see `nomad volume claim list`", s.Arg(0))
			case len(claims) > 1:
				var ids []string
				for _, c := range claims {
					ids = append(ids, c.ID)
				}
				return fault.New(fault.Invalid, "%q begins the ids of several claims: %s", s.Arg(0), strings.Join(ids, ", "))
			}
			c := claims[0]
			if !s.Bool("y") {
				ok, err := s.Sure(fmt.Sprintf("Are you sure you want to delete the claim of job %q on volume %q? Its next allocation may get another volume, without the data", c.JobID, c.VolumeName), "Cancelling claim deletion")
				if err != nil || !ok {
					return err
				}
			}
			if err := s.In(c.Namespace).DeleteHostVolumeClaim(ctx, c.ID); err != nil {
				return session.Failed("deleting claim", err)
			}
			s.Printf("Task group host volume claim %q successfully deleted\n", c.ID)
			return nil
		},
	}.Command()
}
