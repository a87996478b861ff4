package volumes

import (
	"context"
	"time"
)

func roomKey(node string) key { return key{kindRoom, node, "", ""} }

// until is how long a node that has just been found full of a plugin's volumes gets no more of them.
func (s *Service) until() int64 { return s.now().Add(s.limits.NoRoomFor).UnixNano() }

// lookRoom forgets what was learned of a node's room when its time is over.
func (s *Service) lookRoom(ctx context.Context, k key) time.Time {
	n := s.state.Read().Node(k.a)
	if n == nil || len(n.CSILimits) == 0 {
		return time.Time{}
	}
	var next time.Time
	for _, l := range n.CSILimits {
		if at := time.Unix(0, l.Until); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if next.After(s.now()) {
		return next
	}
	if err := s.Settle(ctx); err != nil {
		s.log.Debug("limits of nodes were not forgotten", "node", k.a, "error", err)
	}
	return s.now().Add(s.limits.RetryMin)
}
