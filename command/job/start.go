package job

import (
	"context"
	"errors"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/session"
)

// Start is "nomad job start".
func Start(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "start stopped jobs again", Args: "<job>...", Min: 1, Max: -1,
		Flags: []cli.Flag{session.Verbose(), session.Detach()},
		Run: func(ctx context.Context, s *session.Session) error {
			var errs []error
			for _, id := range s.Args {
				errs = append(errs, startOne(ctx, s, id))
			}
			if len(errs) == 1 {
				return errs[0]
			}
			return errors.Join(errs...)
		},
	}.Command()
}

func startOne(ctx context.Context, s *session.Session, typed string) error {
	stub, err := find.Job(ctx, s, typed)
	if err != nil {
		return err
	}
	at := *s
	at.Client = s.In(stub.Namespace)
	j, _, err := at.Job(ctx, stub.ID, rest.Query{})
	if err != nil {
		return session.Failed("querying job", err)
	}
	if !j.Stop {
		return fault.New(fault.Conflict, "job %q is not stopped, its status is %q", j.ID, j.Status)
	}
	if j.Dispatched || len(j.Payload) > 0 {
		return fault.New(fault.Invalid, "job %q is an instance of %q: dispatch that job instead", j.ID, j.ParentID)
	}
	req := &api.JobRegisterRequest{Job: j, EnforceIndex: true, JobModifyIndex: j.JobModifyIndex}
	switch req.Submission, err = at.JobSubmission(ctx, j.ID, j.Version); {
	case errors.Is(err, fault.NotFound):
	case err != nil:
		return session.Failed("reading job source", err)
	}
	j.Stop = false
	out, err := at.RegisterJob(ctx, req)
	if err != nil {
		return session.Failed("starting job", err)
	}
	warn(&at, out.Warnings)
	return follow(ctx, &at, "Job start successful", out.EvalID)
}
