package node

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
)

// Config is "nomad node config".
func Config(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "show or replace the server list of the contacted agent", Args: "[<server>...]", Max: -1,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "servers", Usage: "list the known servers"},
			&cli.BoolFlag{Name: "update-servers", Usage: "replace the list with the arguments"},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			switch {
			case s.Bool("update-servers") && len(s.Args) == 0:
				return fault.New(fault.Invalid, "-update-servers needs at least one address")
			case s.Bool("update-servers"):
				if err := s.SetAgentServers(ctx, s.Args); err != nil {
					return session.Failed("updating server list", err)
				}
				s.Println("Updated server list")
				return nil
			case s.Bool("servers"):
				all, err := s.AgentServers(ctx)
				if err != nil {
					return session.Failed("querying server list", err)
				}
				for _, a := range all {
					s.Println(a)
				}
				return nil
			}
			return fault.New(fault.Invalid, "specify -servers or -update-servers")
		},
	}.Command()
}
