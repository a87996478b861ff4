package operator

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
)

// RemovePeer is "nomad operator raft remove-peer".
func RemovePeer(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "remove a Raft peer that is permanently lost",
		Flags: []cli.Flag{&cli.StringFlag{Name: "peer-id", Usage: "`id` of the peer, see list-peers"}},
		Run: func(ctx context.Context, s *session.Session) error {
			id := s.String("peer-id")
			if id == "" {
				return fault.New(fault.Invalid, "-peer-id is required: see nomad operator raft list-peers")
			}
			if err := s.RemovePeer(ctx, id); err != nil {
				return session.Failed("removing raft peer", err)
			}
			s.Printf("Removed peer with id %q\n", id)
			return nil
		},
	}.Command()
}

// TransferLeadership is "nomad operator raft transfer-leadership".
func TransferLeadership(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "transfer the leadership to another server",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "peer-id", Usage: "`id` of the new leader"},
			&cli.StringFlag{Name: "peer-address", Usage: "`address` of the new leader"},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			id, address := s.String("peer-id"), s.String("peer-address")
			if (id == "") == (address == "") {
				return fault.New(fault.Invalid, "use either -peer-id or -peer-address: see nomad operator raft list-peers")
			}
			out, err := s.Client.TransferLeadership(ctx, id, address)
			switch {
			case err != nil:
				return session.Failed("transferring the leadership", err)
			case out.Noop:
				s.Printf("%s is already the leader\n", out.To.ID)
			default:
				s.Printf("Transferred leadership to %s (%s)\n", out.To.ID, out.To.Address)
			}
			return nil
		},
	}.Command()
}
