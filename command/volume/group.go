package volume

import (
	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/command/session"
)

// Group is "nomad volume".
func Group() *cli.Command {
	return session.Group("volume", "make and look at volumes",
		Init("init"), Create("create"), Register("register"), Status("status"),
		Deregister("deregister"), Delete("delete"), Detach("detach"), Attachments("attachments"), Doctor("doctor"), Timeline("timeline"),
		session.Group("claim", "look at and delete claims on sticky host volumes", ClaimList("list"), ClaimDelete("delete")),
		session.Group("snapshot", "make and look at snapshots",
			SnapshotCreate("create"), SnapshotDelete("delete"), SnapshotList("list")))
}
