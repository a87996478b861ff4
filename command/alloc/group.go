package alloc

import (
	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/command/session"
)

// Group is "nomad alloc".
func Group() *cli.Command {
	return session.Group("alloc", "look at allocations and act on them",
		Status("status"), Checks("checks"), Logs("logs"), Files("fs"), Exec("exec"), Stop("stop"), Restart("restart"), Signal("signal"), Pause("pause"))
}
