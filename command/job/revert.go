package job

import (
	"context"
	"strconv"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
)

// Revert is "nomad job revert".
func Revert(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "revert a job to an earlier version", Args: "<job> <version|tag>", Min: 2, Max: 2,
		Flags: []cli.Flag{session.Verbose(), session.Detach()},
		Run:   ofJob(revert),
	}.Command()
}

func revert(ctx context.Context, s *session.Session, j *api.JobStub) error {
	n, err := versionOrTag(ctx, s, j.ID, s.Arg(1))
	if err != nil {
		return err
	}
	out, err := s.RevertJob(ctx, j.ID, n, nil)
	if err != nil {
		return session.Failed("reverting job", err)
	}
	warn(s, out.Warnings)
	return follow(ctx, s, "Job revert successful", out.EvalID)
}

// versionOrTag is the number of a version that is named by it or by a tag.
func versionOrTag(ctx context.Context, s *session.Session, id, text string) (uint64, error) {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n, nil
	}
	j, err := tagged(ctx, s, id, text)
	if err != nil {
		return 0, err
	}
	return j.Version, nil
}

// tagged is the version of a job that a tag names.
func tagged(ctx context.Context, s *session.Session, id, tag string) (*api.Job, error) {
	out, err := s.JobVersions(ctx, id, false)
	if err != nil {
		return nil, session.Failed("retrieving job versions", err)
	}
	for _, j := range out.Versions {
		if j.VersionTag != nil && j.VersionTag.Name == tag {
			return j, nil
		}
	}
	return nil, fault.New(fault.NotFound, "%q is not a version number or tag of job %q", tag, id)
}
