package job

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/session"
)

// Group is "nomad job".
func Group() *cli.Command {
	return session.Group("job", "run, stop and look at jobs",
		Run("run"), Plan("plan"), Validate("validate"), Init("init"), Inspect("inspect"), Status("status"),
		Stop("stop"), Start("start"), Restart("restart"), History("history"), Revert("revert"), Tag("tag"),
		Allocs("allocs"), Evaluate("eval"), Deployments("deployments"), Promote("promote"),
		Scale("scale"), ScalingEvents("scaling-events"), Dispatch("dispatch"), Action("action"), Periodic("periodic"))
}

// ofJob finds the job of the first argument, and runs a verb in its namespace.
func ofJob(run func(context.Context, *session.Session, *api.JobStub) error) func(context.Context, *session.Session) error {
	return find.ListOr(nil, find.Job, func(ctx context.Context, s *session.Session, j *api.JobStub) error {
		s.Client = s.In(j.Namespace)
		return run(ctx, s, j)
	})
}
