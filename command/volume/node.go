package volume

import (
	"context"

	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/session"
)

// nodeOf returns the id of a node, which may no longer exist. A removed node is found among those with claims of the
// volume, or with any attachment or mount if the volume is empty.
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
