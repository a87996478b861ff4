package job

import (
	"context"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/command/session"
)

// Validate is "nomad job validate".
func Validate(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "check a job file", Args: "<path>", Min: 1, Max: 1, BadUse: 255,
		Flags: slices.Concat(fileFlags(), []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "the file is JSON"}}),
		Run:   validate,
	}.Command()
}

func validate(ctx context.Context, s *session.Session) error {
	src, err := readJob(s, s.Arg(0))
	if err != nil {
		return &session.Exit{Code: 255, Text: err.Error()}
	}
	s.Client = s.In(src.job.Namespace)
	out, err := s.ValidateJob(ctx, src.job)
	if err != nil {
		return session.Failed("validating job", err)
	}
	if len(out.ValidationErrors) > 0 || out.Error != "" {
		problems := out.ValidationErrors
		if len(problems) == 0 {
			problems = []string{out.Error}
		}
		return &session.Exit{Code: 1, Text: "Job validation errors:\n* " + strings.Join(problems, "\n* ")}
	}
	warn(s, out.Warnings)
	s.Println("Job validation successful")
	return nil
}
