package job

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/jobspec/examples"
)

const exampleFile = "example.nomad.hcl"

// Init is "nomad job init".
func Init(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "write an example job file", Args: "[<file>]", Max: 1, Offline: true,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "short", Usage: "write the file without comments"},
			&cli.StringFlag{Name: "template", Usage: "write the `template` with this name"},
			&cli.BoolFlag{Name: "list-templates", Usage: "list the templates instead"},
			&cli.BoolFlag{Name: "connect", Hidden: true},
		},
		Run: initialise,
	}.Command()
}

func initialise(_ context.Context, s *session.Session) error {
	if s.Bool("connect") {
		return fault.New(fault.Unimplemented, "-connect: this version has no service mesh (connect blocks); use -short for a job with a service")
	}
	all, err := templates()
	if err != nil {
		return err
	}
	if s.Bool("list-templates") {
		s.Print(templateTable(all))
		return nil
	}
	text := examples.Long
	switch {
	case s.Bool("short") && s.IsSet("template"):
		return fault.New(fault.Invalid, "-short and -template cannot be combined")
	case s.Bool("short"):
		text = examples.Short
	case s.IsSet("template"):
		if text, err = template(all, s.String("template")); err != nil {
			return err
		}
	}
	path := s.Arg(0)
	if path == "" {
		path = exampleFile
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fault.New(fault.Conflict, "Job file %q already exists", path)
	}
	if err != nil {
		return fault.New(fault.Invalid, "write %w", err)
	}
	if _, err := f.WriteString(text); err != nil {
		return errors.Join(err, f.Close())
	}
	s.Println("Example job file written to", path)
	return f.Close()
}
