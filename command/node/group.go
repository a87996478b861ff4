package node

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/session"
)

// Group is "nomad node".
func Group() *cli.Command {
	return session.Group("node", "look at nodes and drain them", Status("status"), Eligibility("eligibility"), Drain("drain"), Config("config"),
		session.Group("identity", "show and renew identities of nodes", identityGet("get"), identityRenew("renew")),
		session.Group("intro", "introduce new nodes", introCreate("create")),
		session.Group("meta", "show and change metadata of nodes", metaRead("read"), metaApply("apply")))
}

// target is the node of the argument, or with -self that of the asked agent.
func target(ctx context.Context, s *session.Session) (string, error) {
	if s.Bool("self") {
		if len(s.Args) > 0 {
			return "", fault.New(fault.Invalid, "-self cannot be combined with a node argument")
		}
		return find.LocalNode(ctx, s)
	}
	if len(s.Args) == 0 {
		return "", fault.New(fault.Invalid, "specify a node or -self")
	}
	n, err := find.Node(ctx, s, s.Arg(0))
	if err != nil {
		return "", err
	}
	return n.ID, nil
}

// Eligibility is "nomad node eligibility".
func Eligibility(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "set whether a node accepts new allocations", Args: "[<node>]", Max: 1,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "enable", Usage: "make it eligible"},
			&cli.BoolFlag{Name: "disable", Usage: "make it ineligible"},
			&cli.BoolFlag{Name: "self", Usage: "use the node of the contacted agent"},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			if s.Bool("enable") == s.Bool("disable") {
				return fault.New(fault.Invalid, "use either -enable or -disable")
			}
			id, err := target(ctx, s)
			if err != nil {
				return err
			}
			if _, err := s.SetEligibility(ctx, id, s.Bool("enable")); err != nil {
				return session.Failed("updating scheduling eligibility", err)
			}
			word := "ineligible"
			if s.Bool("enable") {
				word = "eligible"
			}
			s.Printf("Node %q scheduling eligibility set: %s for scheduling\n", id, word)
			return nil
		},
	}.Command()
}
