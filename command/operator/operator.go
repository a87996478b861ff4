package operator

import (
	"context"
	"strconv"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/command/operator/debug"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Group is "nomad operator".
func Group() *cli.Command {
	return session.Group("operator", "look after the cluster itself",
		API("api"), Metrics("metrics"), debug.Verb("debug"),
		session.Group("raft", "look after the Raft peers",
			ListPeers("list-peers"), RemovePeer("remove-peer"), TransferLeadership("transfer-leadership"), RaftRecover("recover")),
		session.Group("autopilot", "see how the servers are, and how they are kept in order",
			AutopilotGet("get-config"), AutopilotSet("set-config"), Health("health")),
		session.Group("snapshot", "save and restore the state of the servers",
			SnapshotSave("save"), SnapshotRestore("restore"), SnapshotInspect("inspect"), SnapshotRedact("redact")),
		session.Group("gossip", "look after gossip", session.Group("keyring", "look after the gossip keys",
			KeyGenerate("generate"), KeyList("list"), KeyInstall("install"), KeyUse("use"), KeyRemove("remove"))),
		session.Group("root", "look after the root keys", session.Group("keyring", "look after the root keys",
			RootKeyList("list"), RootKeyRotate("rotate"), RootKeyRemove("remove"))),
		session.Group("scheduler", "look at the scheduler and set it", GetConfig("get-config"), SetConfig("set-config")))
}

// ListPeers is "nomad operator raft list-peers".
func ListPeers(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list the Raft peers",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "stale", Usage: "allow any server to respond; the result may be stale"}},
		Run: func(ctx context.Context, s *session.Session) error {
			out, err := s.RaftConfiguration(ctx, s.Bool("stale"))
			if err != nil {
				return session.Failed("reading Raft configuration", err)
			}
			table := [][]string{{"Node", "ID", "Address", "State", "Voter", "RaftProtocol"}}
			for _, p := range out.Servers {
				state := "follower"
				if p.Leader {
					state = "leader"
				}
				table = append(table, []string{p.Node, p.ID, p.Address, state, strconv.FormatBool(p.Voter), p.RaftProtocol})
			}
			s.Print(view.Table(table...))
			return nil
		},
	}.Command()
}
