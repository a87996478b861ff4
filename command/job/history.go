package job

import (
	"context"
	"strconv"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// History is "nomad job history".
func History(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list the versions of a job", Args: "<job>", Min: 1, Max: 1, Format: true,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "p", Usage: "show the differences between versions"},
			&cli.BoolFlag{Name: "full", Usage: "print whole jobs"},
			&cli.StringFlag{Name: "version", Usage: "one `version` only"},
		},
		Run: history,
	}.Command()
}

func history(ctx context.Context, s *session.Session) error {
	stub, err := find.Job(ctx, s, s.Arg(0))
	if err != nil {
		return err
	}
	out, err := s.In(stub.Namespace).JobVersions(ctx, stub.ID, s.Bool("p"))
	if err != nil {
		return session.Failed("retrieving job versions", err)
	}
	versions, diffs := out.Versions, out.Diffs
	if text := s.String("version"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return fault.New(fault.Invalid, "-version %q is not a number", text)
		}
		if versions, diffs = only(versions, diffs, n); len(versions) == 0 {
			return fault.New(fault.NotFound, "job %q has no version %d", stub.ID, n)
		}
	}
	if s.Formatted() {
		return s.Document(versions)
	}
	for i, j := range versions {
		if i > 0 {
			s.Println()
		}
		if s.Bool("full") {
			if err := view.JSON(s.Out, j); err != nil {
				return err
			}
			continue
		}
		pairs := [][2]string{
			{"Version", strconv.FormatUint(j.Version, 10)},
			{"Stable", strconv.FormatBool(j.Stable)},
			{"Submit Date", view.UnixTime(j.SubmitTime)},
		}
		s.Print(view.Pairs(pairs...))
		if i < len(diffs) && s.Bool("p") {
			s.Printf("Diff        =\n%s", diffText(diffs[i], nil))
		}
	}
	return nil
}

// only keeps one version and the difference that belongs to it.
func only(versions []*api.Job, diffs []*api.JobDiff, n uint64) ([]*api.Job, []*api.JobDiff) {
	for i, j := range versions {
		if j.Version != n {
			continue
		}
		if i < len(diffs) {
			return versions[i : i+1], diffs[i : i+1]
		}
		return versions[i : i+1], nil
	}
	return nil, nil
}
