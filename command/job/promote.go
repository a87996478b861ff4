package job

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/deployment"
	"github.com/open-nomad/open-nomad/command/session"
)

// Promote is "nomad job promote".
func Promote(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "promote the canaries of a job's latest deployment", Args: "<job>", Min: 1, Max: 1,
		Flags: []cli.Flag{session.Verbose(), session.Detach(), deployment.GroupFlag()},
		Run:   ofJob(promote),
	}.Command()
}

func promote(ctx context.Context, s *session.Session, j *api.JobStub) error {
	d, err := s.JobDeployment(ctx, j.ID)
	switch {
	case err != nil:
		return session.Failed("retrieving deployment", err)
	case d == nil:
		return fault.New(fault.NotFound, "job %q has no deployment to promote", j.ID)
	}
	out, err := s.PromoteDeployment(ctx, d.ID, s.Strings("group")...)
	if err != nil {
		return session.Failed("promoting deployment "+s.ID(d.ID), err)
	}
	s.Printf("Deployment %q of job %q promoted\n", s.ID(d.ID), j.ID)
	return deployment.After(ctx, s, out, false)
}
