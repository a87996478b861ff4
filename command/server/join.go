package server

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Join is "nomad server join".
func Join(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "join the contacted server to other servers", Args: "<address>...", Min: 1, Max: -1,
		Run: func(ctx context.Context, s *session.Session) error {
			n, complaint, err := s.Client.Join(ctx, s.Args)
			switch {
			case err != nil:
				return session.Failed("joining", err)
			case n == 0:
				return fault.New(fault.Unavailable, "Error joining: %s", view.Inline(complaint))
			case complaint != "":
				s.Warnf("%s", view.Inline(complaint))
			}
			s.Printf("Joined %d servers successfully\n", n)
			return nil
		},
	}.Command()
}

// ForceLeave is "nomad server force-leave".
func ForceLeave(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "eject a failed server", Args: "<name>", Min: 1, Max: 1,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "prune", Usage: "remove the server permanently"}},
		Run: func(ctx context.Context, s *session.Session) error {
			if err := s.Client.ForceLeave(ctx, s.Arg(0), s.Bool("prune")); err != nil {
				return session.Failed("force-leaving server "+s.Arg(0), err)
			}
			return nil
		},
	}.Command()
}
