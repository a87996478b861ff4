package job

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Inspect is "nomad job inspect".
func Inspect(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "print a job as it is stored", Args: "<job>", Min: 1, Max: 1, Format: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "version", Usage: "`version` of the job"},
			&cli.BoolFlag{Name: "hcl", Usage: "print the job's source"},
			&cli.BoolFlag{Name: "with-vars", Usage: "with -hcl: also print the variable values"},
		},
		Run: ofJob(inspect),
	}.Command()
}

func inspect(ctx context.Context, s *session.Session, stub *api.JobStub) error {
	j, err := version(ctx, s, stub.ID, s.String("version"))
	if err != nil {
		return err
	}
	if s.Bool("hcl") {
		sub, err := s.JobSubmission(ctx, j.ID, j.Version)
		if err != nil {
			return session.Failed("reading job source", err)
		}
		if s.Bool("with-vars") && sub.Variables != "" {
			s.Printf("/*\n%s\n*/\n\n", sub.Variables)
		}
		s.Print(sub.Source, "\n")
		return nil
	}
	if t := s.String("t"); t != "" {
		return view.Template(s.Out, t, j)
	}
	return view.JSON(s.Out, struct{ Job *api.Job }{j})
}

// version reads a job, or one version of it.
func version(ctx context.Context, s *session.Session, id, text string) (*api.Job, error) {
	if text == "" {
		j, _, err := s.Job(ctx, id, rest.Query{})
		if err != nil {
			return nil, session.Failed("inspecting job", err)
		}
		return j, nil
	}
	out, err := s.JobVersions(ctx, id, false)
	if err != nil {
		return nil, session.Failed("reading job versions", err)
	}
	versions, _, err := only(id, out.Versions, nil, text)
	if err != nil {
		return nil, err
	}
	return versions[0], nil
}
