package quota

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/specfile"
	"github.com/open-nomad/open-nomad/jobspec/examples"
)

// Init is "nomad quota init".
func Init(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "write an example quota file", Args: "[<file>]", Max: 1, Offline: true,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "in JSON"}},
		Run: func(_ context.Context, s *session.Session) error {
			path, text := "spec.hcl", examples.Quota
			if s.Bool("json") {
				path, text = "spec.json", examples.QuotaJSON
			}
			if s.Arg(0) != "" {
				path = s.Arg(0)
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o660)
			if errors.Is(err, fs.ErrExist) {
				return fault.New(fault.Conflict, "Quota file %q already exists", path)
			}
			if err != nil {
				return fault.New(fault.Invalid, "write %w", err)
			}
			if _, err := f.WriteString(text); err != nil {
				return errors.Join(err, f.Close())
			}
			s.Println("Example quota specification written to", path)
			return f.Close()
		},
	}.Command()
}

// Apply is "nomad quota apply".
func Apply(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "create or update a quota from a file", Args: "<file, - for stdin>", Min: 1, Max: 1,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "the file is JSON with the names of the API"}},
		Run: func(ctx context.Context, s *session.Session) error {
			q := &api.QuotaSpec{}
			if err := specfile.Read(s, s.Arg(0), s.Bool("json"), q); err != nil {
				return session.Failed("reading quota file", err)
			}
			if q.Name == "" {
				return fault.New(fault.Invalid, "quota file %s has no name: write name = \"...\" there", s.Arg(0))
			}
			if err := s.Quotas().Put(ctx, "", q); err != nil {
				return session.Failed("applying quota specification", err)
			}
			s.Printf("Successfully applied quota specification %q!\n", q.Name)
			return nil
		},
	}.Command()
}

// Delete is "nomad quota delete".
func Delete(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "delete a quota that no namespace has", Args: "<quota>", Min: 1, Max: 1,
		Run: func(ctx context.Context, s *session.Session) error {
			if err := s.Quotas().Delete(ctx, s.Arg(0)); err != nil {
				return session.Failed("deleting quota", err)
			}
			s.Printf("Successfully deleted quota %q!\n", s.Arg(0))
			return nil
		},
	}.Command()
}
