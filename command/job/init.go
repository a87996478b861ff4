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
		Flags: []cli.Flag{&cli.BoolFlag{Name: "short", Usage: "without comments"}, &cli.BoolFlag{Name: "connect", Hidden: true}},
		Run: func(_ context.Context, s *session.Session) error {
			path := s.Arg(0)
			if path == "" {
				path = exampleFile
			}
			text := examples.Long
			if s.Bool("short") {
				text = examples.Short
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
		},
	}.Command()
}
