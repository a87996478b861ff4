package server

import (
	"context"
	"strconv"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Group is "nomad server".
func Group() *cli.Command {
	return session.Group("server", "look after servers", Members("members"), Join("join"), ForceLeave("force-leave"))
}

// Members is "nomad server members".
func Members(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list the servers", Format: true,
		Flags: []cli.Flag{session.Verbose(), session.PageFlag(), &cli.BoolFlag{Name: "detailed", Hidden: true}},
		Run:   members,
	}.Command()
}

func members(ctx context.Context, s *session.Session) error {
	out, err := s.Members(ctx)
	if err != nil {
		return session.Failed("querying servers", err)
	}
	if s.Formatted() {
		return s.Document(out.Members)
	}
	if len(out.Members) == 0 {
		s.Println("Agent doesn't know about server members")
		return nil
	}
	leaders, leaderErr := leadersOf(ctx, s, out.Members)
	long := s.Verbose || s.Bool("detailed")
	head := []string{"Name", "Address", "Port", "Status", "Leader", "Raft Version", "Build", "Datacenter", "Region"}
	if long {
		head = []string{"Name", "Address", "Port", "Status", "Leader", "Protocol", "Raft Version", "Build", "Datacenter", "Region", "Tags"}
	}
	table := [][]string{head}
	for _, m := range out.Members {
		leads := strconv.FormatBool(leaders[m.Tags["region"]] == rpcAddress(m.Tags, m.Addr))
		row := []string{m.Name, m.Addr, strconv.Itoa(int(m.Port)), m.Status, leads}
		if long {
			row = append(row, strconv.Itoa(int(m.ProtocolCur)))
		}
		row = append(row, m.Tags["raft_vsn"], m.Tags["build"], m.Tags["dc"], m.Tags["region"])
		if long {
			row = append(row, view.Map(m.Tags, ","))
		}
		table = append(table, row)
	}
	s.Print(view.Table(table...))
	if leaderErr != nil {
		return session.Failed("determining leader", leaderErr)
	}
	return s.Page(ctx, "servers", "servers")
}

// leadersOf asks each region for its leader, once. A region that does not reply has none. The last error is returned
// together with the leaders of the other regions.
func leadersOf(ctx context.Context, s *session.Session, all []*api.AgentMember) (map[string]string, error) {
	leaders := map[string]string{}
	var last error
	for _, m := range all {
		region := m.Tags["region"]
		if _, asked := leaders[region]; asked {
			continue
		}
		address, err := s.InRegion(region).Leader(ctx)
		if err != nil {
			last = err
		}
		leaders[region] = address
	}
	return leaders, last
}

func rpcAddress(tags map[string]string, addr string) string {
	host := tags["rpc_addr"]
	if host == "" {
		host = addr
	}
	return host + ":" + tags["port"]
}
