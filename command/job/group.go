package job

import (
	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/command/session"
)

// Group is "nomad job".
func Group() *cli.Command {
	return session.Group("job", "run, stop and look at jobs",
		Run("run"), Plan("plan"), Validate("validate"), Init("init"), Inspect("inspect"), Status("status"),
		Stop("stop"), Start("start"), Restart("restart"), History("history"), Revert("revert"), Tag("tag"),
		Allocs("allocs"), Evaluate("eval"), Deployments("deployments"), Promote("promote"),
		Scale("scale"), ScalingEvents("scaling-events"), Dispatch("dispatch"), Periodic("periodic"))
}
