package operator

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Group is "nomad operator".
func Group() *cli.Command {
	return session.Group("operator", "look after the cluster itself",
		API("api"),
		session.Group("raft", "look after the Raft peers",
			ListPeers("list-peers"), RemovePeer("remove-peer"), TransferLeadership("transfer-leadership")),
		session.Group("autopilot", "see how the servers are, and how they are kept in order",
			AutopilotGet("get-config"), AutopilotSet("set-config"), Health("health")),
		session.Group("snapshot", "save and restore the state of the servers",
			SnapshotSave("save"), SnapshotRestore("restore"), SnapshotInspect("inspect")),
		session.Group("gossip", "look after gossip", session.Group("keyring", "look after the gossip keys",
			KeyGenerate("generate"), KeyList("list"), KeyInstall("install"), KeyUse("use"), KeyRemove("remove"))),
		session.Group("scheduler", "look at the scheduler and set it", GetConfig("get-config"), SetConfig("set-config")))
}

// ListPeers is "nomad operator raft list-peers".
func ListPeers(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list the Raft peers",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "stale", Usage: "any server may answer"}},
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

// API is "nomad operator api".
func API(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "send a request to any endpoint of the API", Args: "<path>", Min: 1, Max: 1,
		Flags: []cli.Flag{&cli.StringFlag{Name: "X", Value: http.MethodGet, Usage: "`method` of the request"}},
		Run: func(ctx context.Context, s *session.Session) error {
			u, err := url.Parse(s.Arg(0))
			if err != nil {
				return fault.New(fault.Invalid, "path %q: %w", s.Arg(0), err)
			}
			path := strings.TrimPrefix(strings.TrimPrefix(u.Path, "/"), "v1/")
			if err := s.Raw(ctx, s.String("X"), strings.Split(path, "/"), u.Query(), s.Out); err != nil {
				return session.Failed("querying API", err)
			}
			s.Println()
			return nil
		},
	}.Command()
}
