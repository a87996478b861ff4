package job

import (
	"context"
	"strconv"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/session"
)

// Tag is "nomad job tag".
func Tag(name string) *cli.Command {
	return session.Group(name, "name versions of jobs, so that they are kept and found", TagApply("apply"), TagUnset("unset"))
}

// tagName is the flag of the verbs of tags.
func tagName() cli.Flag { return &cli.StringFlag{Name: "name", Usage: "`name` of the version"} }

// TagApply is "nomad job tag apply".
func TagApply(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "tag a version of a job", Args: "<job>", Min: 1, Max: 1,
		Flags: []cli.Flag{
			tagName(),
			&cli.StringFlag{Name: "version", Usage: "number of the `version`; default is the latest"},
			&cli.StringFlag{Name: "description", Usage: "description `text`"},
		},
		Run: tagApply,
	}.Command()
}

func tagApply(ctx context.Context, s *session.Session) error {
	t := rest.Tag{Name: s.String("name"), Description: s.String("description")}
	if t.Name == "" {
		return fault.New(fault.Invalid, "-name is required")
	}
	if text := s.String("version"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return fault.New(fault.Invalid, "-version %q is not a number", text)
		}
		t.Version = &n
	}
	j, err := find.Job(ctx, s, s.Arg(0))
	if err != nil {
		return err
	}
	if _, err := s.In(j.Namespace).TagJob(ctx, j.ID, t); err != nil {
		return session.Failed("tagging job version", err)
	}
	which := "the newest version"
	if t.Version != nil {
		which = "version " + strconv.FormatUint(*t.Version, 10)
	}
	s.Printf("Tag %q names %s of job %q\n", t.Name, which, j.ID)
	return nil
}

// TagUnset is "nomad job tag unset".
func TagUnset(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "remove the tag of a version", Args: "<job>", Min: 1, Max: 1, Flags: []cli.Flag{tagName()},
		Run: func(ctx context.Context, s *session.Session) error {
			tag := s.String("name")
			if tag == "" {
				return fault.New(fault.Invalid, "-name is required")
			}
			j, err := find.Job(ctx, s, s.Arg(0))
			if err != nil {
				return err
			}
			if err := s.In(j.Namespace).UntagJob(ctx, j.ID, tag); err != nil {
				return session.Failed("removing tag", err)
			}
			s.Printf("Tag %q of job %q removed\n", tag, j.ID)
			return nil
		},
	}.Command()
}
