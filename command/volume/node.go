package volume

import (
	"context"

	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/session"
)

// nodeOf is the id of a node that may be gone for good: then it is one with claims of the volume, unless that is empty,
// or with any attachment or mount.
func nodeOf(ctx context.Context, s *session.Session, typed, volume string) (string, error) {
	return find.NodeOrGone(ctx, s, typed, func() (holders []string, err error) {
		if volume != "" {
			v, _, err := s.Volume(ctx, volume, rest.Query{})
			if err != nil {
				return nil, session.Failed("querying volume", err)
			}
			for _, c := range v.Claims {
				holders = append(holders, c.NodeID)
			}
		}
		list, _, err := s.Attachments(ctx, rest.Query{})
		if err != nil {
			return nil, session.Failed("querying attachments", err)
		}
		for _, a := range list {
			holders = append(holders, a.NodeID)
		}
		return holders, nil
	})
}
