package scaling

import (
	"bytes"
	"context"
	"strconv"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Group is "nomad scaling".
func Group() *cli.Command {
	return session.Group("scaling", "look at how jobs are scaled",
		session.Group("policy", "look at scaling policies", List("list"), Info("info")))
}

// List is "nomad scaling policy list".
func List(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list scaling policies", Format: true,
		Flags: []cli.Flag{
			session.Verbose(),
			&cli.StringFlag{Name: "job", Usage: "list only those of this `job`"},
			&cli.StringFlag{Name: "type", Usage: "list only those of this `type`, such as horizontal"},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			found, _, err := s.ScalingPolicies(ctx, s.String("job"), s.String("type"), rest.Query{})
			if err != nil {
				return session.Failed("listing scaling policies", err)
			}
			if s.Formatted() {
				return s.Document(found)
			}
			if len(found) == 0 {
				s.Println("No policies found")
				return nil
			}
			s.Print(find.PolicyTable(found, s.Verbose))
			return nil
		},
	}.Command()
}

// Info is "nomad scaling policy info".
func Info(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "show a scaling policy", Args: "<policy>", Min: 1, Max: 1, Format: true,
		Flags: []cli.Flag{session.Verbose()},
		Run:   info,
	}.Command()
}

func info(ctx context.Context, s *session.Session) error {
	stub, err := find.Policy(ctx, s, s.Arg(0))
	if err != nil {
		return err
	}
	if ns := stub.Target["Namespace"]; ns != "" {
		s.Client = s.In(ns)
	}
	p, err := s.ScalingPolicy(ctx, stub.ID)
	if err != nil {
		return session.Failed("reading scaling policy", err)
	}
	if s.Formatted() {
		return s.Document(p)
	}
	s.Print(view.Pairs(
		[2]string{"ID", s.ID(p.ID)}, [2]string{"Enabled", strconv.FormatBool(p.Enabled)}, [2]string{"Type", p.Type},
		[2]string{"Target", find.Target(p.Target)},
		[2]string{"Min", strconv.FormatInt(p.Min, 10)}, [2]string{"Max", strconv.FormatInt(p.Max, 10)}))
	if len(p.Policy) == 0 {
		return nil
	}
	var text bytes.Buffer
	if err := view.JSON(&text, p.Policy); err != nil {
		return err
	}
	s.Titled("Policy:", view.Indent(text.String(), 2))
	return nil
}
