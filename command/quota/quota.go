package quota

import (
	"context"
	"errors"
	"strconv"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/rows"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Group is "nomad quota".
func Group() *cli.Command {
	return session.Group("quota", "limit what namespaces use",
		List("list"), Status("status"), Inspect("inspect"), Init("init"), Apply("apply"), Delete("delete"))
}

// List is "nomad quota list".
func List(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list quotas", Format: true,
		Run: func(ctx context.Context, s *session.Session) error {
			found, err := s.Quotas().List(ctx, rest.Query{})
			if err != nil {
				return session.Failed("retrieving quotas", err)
			}
			if s.Formatted() {
				return s.Document(found)
			}
			if len(found) == 0 {
				s.Println("No quotas found")
				return nil
			}
			s.Print(find.QuotaTable(found))
			return nil
		},
	}.Command()
}

// inspected is a quota with what its namespaces use.
type inspected struct {
	*api.QuotaSpec
	Usage *api.QuotaUsage
}

// read finds the quota of the argument and its usage. Usage is nil where the server has none.
func read(ctx context.Context, s *session.Session) (*inspected, error) {
	q, err := find.Quota(ctx, s, s.Arg(0))
	if err != nil {
		return nil, err
	}
	usage, err := s.QuotaUsage(ctx, q.Name)
	if err != nil && !errors.Is(err, fault.NotFound) {
		return nil, session.Failed("reading quota usage", err)
	}
	return &inspected{q, usage}, nil
}

// Status is "nomad quota status".
func Status(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "show a quota and what its namespaces use", Args: "<quota>", Min: 1, Max: 1, Format: true,
		Run: func(ctx context.Context, s *session.Session) error {
			q, err := read(ctx, s)
			if err != nil {
				return err
			}
			if s.Formatted() {
				return s.Document(q)
			}
			s.Print(view.Pairs([2]string{"Name", q.Name}, [2]string{"Description", q.Description}, [2]string{"Limits", strconv.Itoa(len(q.Limits))}))
			s.Print(rows.QuotaUsage(q.QuotaSpec, q.Usage))
			return nil
		},
	}.Command()
}

// Inspect is "nomad quota inspect".
func Inspect(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "print a quota as it is stored, with its usage", Args: "<quota>", Min: 1, Max: 1, Format: true,
		Run: func(ctx context.Context, s *session.Session) error {
			q, err := read(ctx, s)
			if err != nil {
				return err
			}
			return s.Document(q)
		},
	}.Command()
}
