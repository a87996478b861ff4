package volume

import (
	"context"
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// claimant finds a node that is gone among those that still hold the volume; a whole id is taken as it is.
func claimant(ctx context.Context, s *session.Session, volume, typed string) (string, error) {
	v, _, err := s.Volume(ctx, volume, rest.Query{})
	if err != nil {
		return "", session.Failed("querying volume", err)
	}
	holders := map[string]bool{}
	for _, c := range v.Claims {
		holders[c.NodeID] = true
	}
	for _, a := range v.Attachments {
		holders[a.NodeID] = true
	}
	if holders[typed] {
		return typed, nil
	}
	var like []string
	for id := range holders {
		if strings.HasPrefix(id, typed) {
			like = append(like, id)
		}
	}
	switch len(like) {
	case 0:
		return typed, nil
	case 1:
		return like[0], nil
	}
	return "", fault.New(fault.Invalid, "Prefix %q matched multiple nodes that hold the volume: %s", typed, view.Inline(fmt.Sprint(like)))
}
