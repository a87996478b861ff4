package operator

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/agent/archive"
	"github.com/open-nomad/open-nomad/command/session"
)

// RaftRecover is "nomad operator raft recover".
func RaftRecover(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "check and repair the raft log of a stopped server",
		Description: "Checks whether a server starts with the raft log in an agent's data directory. With -skip, " +
			"-cut or -peers the log is changed, after a copy was made next to it. The agent must not run.",
		Args: "<data directory>", Min: 1, Max: 1, Offline: true,
		Flags: []cli.Flag{
			&cli.Int64Flag{Name: "skip", Usage: "make the entry with this `index` a no-op; use the same index on every server"},
			&cli.Int64Flag{Name: "cut", Usage: "delete the entry with this `index` and all later ones; use the same index on every server"},
			&cli.StringFlag{Name: "peers", Usage: "JSON `file` of the servers that make up the cluster from now on: [{\"id\": ..., \"address\": \"host:4647\"}]"},
		},
		Run: func(_ context.Context, s *session.Session) error {
			skip, cut := s.Int64("skip"), s.Int64("cut")
			switch {
			case skip != 0 && cut != 0:
				return fault.New(fault.Invalid, "use either -skip or -cut")
			case skip < 0 || cut < 0:
				return fault.New(fault.Invalid, "an index must not be negative")
			}
			out, err := archive.Recover(s.Arg(0), uint64(skip), uint64(cut), s.String("peers"))
			if out != nil {
				for _, line := range archive.Words(out) {
					s.Printf("%s\n", line)
				}
			}
			if err != nil {
				return err
			}
			if out.Bad != 0 {
				return fault.New(fault.Invalid, "a server cannot start with this log")
			}
			return nil
		},
	}.Command()
}
