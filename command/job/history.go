package job

import (
	"context"
	"slices"
	"strconv"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
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
			&cli.StringFlag{Name: "version", Usage: "show only this `version`"},
			&cli.StringFlag{Name: "diff-version", Usage: "with -p: compare with this `version` instead of the previous one"},
			&cli.StringFlag{Name: "diff-tag", Usage: "with -p: compare with the version that this `tag` names"},
		},
		Run: history,
	}.Command()
}

func history(ctx context.Context, s *session.Session) error {
	to := rest.Difference{Tag: s.String("diff-tag"), Version: s.String("diff-version")}
	if to.Tag != "" && to.Version != "" {
		return fault.New(fault.Invalid, "-diff-tag and -diff-version cannot be combined")
	}
	stub, err := find.Job(ctx, s, s.Arg(0))
	if err != nil {
		return err
	}
	differs := s.Bool("p") || to != rest.Difference{}
	versions, diffs, err := read(ctx, s.In(stub.Namespace), stub.ID, differs, to)
	if err != nil {
		return err
	}
	if text := s.String("version"); text != "" {
		if versions, diffs, err = only(stub.ID, versions, diffs, text); err != nil {
			return err
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
		s.Print(view.Pairs(versionFacts(j)...))
		if differs && i < len(diffs) && diffs[i] != nil {
			s.Print("Diff        =\n")
			s.Difference(diffText(diffs[i], nil))
		}
	}
	return nil
}

func read(ctx context.Context, c *rest.Client, id string, differs bool, to rest.Difference) ([]*api.Job, []*api.JobDiff, error) {
	get := func() (*api.JobVersionsResponse, error) { return c.JobVersions(ctx, id, false) }
	if differs {
		get = func() (*api.JobVersionsResponse, error) { return c.JobHistory(ctx, id, to) }
	}
	out, err := get()
	if err != nil {
		return nil, nil, session.Failed("retrieving job versions", err)
	}
	return out.Versions, out.Diffs, nil
}

func versionFacts(j *api.Job) [][2]string {
	facts := [][2]string{
		{"Version", strconv.FormatUint(j.Version, 10)},
		{"Stable", strconv.FormatBool(j.Stable)},
		{"Submit Date", view.UnixTime(j.SubmitTime)},
	}
	if t := j.VersionTag; t != nil {
		facts = append(facts, [2]string{"Tag Name", t.Name})
		if t.Description != "" {
			facts = append(facts, [2]string{"Tag Description", t.Description})
		}
	}
	return facts
}

// only keeps one version and the difference that belongs to it.
func only(id string, versions []*api.Job, diffs []*api.JobDiff, text string) ([]*api.Job, []*api.JobDiff, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, nil, fault.New(fault.Invalid, "-version %q is not a number", text)
	}
	i := slices.IndexFunc(versions, func(j *api.Job) bool { return j.Version == n })
	if i < 0 {
		return nil, nil, fault.New(fault.NotFound, "job %q has no version %d", id, n)
	}
	return versions[i : i+1], diffs[min(i, len(diffs)):min(i+1, len(diffs))], nil
}
