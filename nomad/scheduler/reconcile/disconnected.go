package reconcile

import (
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// NodeLoss is the effect of its node's state on a live allocation. The zero value is no effect.
type NodeLoss struct {
	// Lost is the reason why the allocation is lost permanently.
	Lost string
	// Unknown is set while the allocation may still run on an unreachable node.
	Unknown bool
	// Until is when that ends, zero when nothing but the node's return ends it.
	Until time.Time
	// Replace asks for another allocation meanwhile.
	Replace bool
}

// NodeLossOf returns the effect of the node's state on a live allocation of the group; n is nil when it is deleted.
//
//	node deleted                          lost
//	node down                             lost; unknown where the group replaces nothing that is lost, or
//	                                      until the node itself has stopped it (stop_on_client_after)
//	node disconnected, with lost_after    unknown, then lost
//	node disconnected, without            as on a node that is down
func NodeLossOf(a *api.Allocation, n *api.Node, g *api.TaskGroup, now time.Time) NodeLoss {
	switch {
	case n == nil:
		return NodeLoss{Lost: nodeGone}
	case n.Status != api.NodeStatusDown && n.Status != api.NodeStatusDisconnected:
		return NodeLoss{}
	}
	began := a.ClientStatus != api.AllocClientStatusPending
	if after := LostAfter(g); n.Status == api.NodeStatusDisconnected && after > 0 {
		until := now.Add(after)
		if since := UnknownSince(a); !since.IsZero() {
			until = since.Add(after)
		}
		if !began || !now.Before(until) {
			return NodeLoss{Lost: lost}
		}
		return NodeLoss{Unknown: true, Until: until, Replace: g.Disconnect == nil || g.Disconnect.Replace}
	}
	if !replacesLost(g) {
		return NodeLoss{Unknown: true}
	}
	if until := clientStopTime(n, g); began && now.Before(until) {
		return NodeLoss{Unknown: true, Until: until}
	}
	return NodeLoss{Lost: lost}
}

// VolumeLost returns why an allocation on a connected node must stop, or "": the claim of a volume was released without
// the node, so its mount may be cut off or in use by another allocation. Shared volumes are not affected.
func VolumeLost(a *api.Allocation, n *api.Node) string {
	if slices.ContainsFunc(n.StaleMounts, func(m *api.StaleMount) bool { return m.AllocID == a.ID && !m.Shared }) {
		return volumeLost
	}
	return ""
}

// replacesLost reports whether allocations of the group are replaced when their node is lost.
func replacesLost(g *api.TaskGroup) bool {
	return !g.PreventRescheduleOnLost && (g.Disconnect == nil || g.Disconnect.Replace || g.Disconnect.LostAfter == 0)
}

// LostAfter is how long allocations of the group may be out of sight before they are lost; 0 means not at all.
func LostAfter(g *api.TaskGroup) time.Duration {
	if g.Disconnect != nil {
		return g.Disconnect.LostAfter
	}
	return g.MaxClientDisconnect
}

// clientStopTime is when a node without contact to the servers has stopped the tasks of the group itself; zero if it does not.
func clientStopTime(n *api.Node, g *api.TaskGroup) time.Time {
	after := stopAfterDisconnect(g)
	if after <= 0 {
		return time.Time{}
	}
	var kill time.Duration
	for _, t := range g.Tasks {
		kill = max(kill, t.KillTimeout)
	}
	// The status is stamped in whole seconds, and the node looks twice a second.
	heard := time.Unix(n.StatusUpdatedAt+1, 0).Add(-n.Silence)
	return heard.Add(after + kill + time.Second)
}

// stopAfterDisconnect is how long the group runs on a node that hears no server; 0 means indefinitely.
func stopAfterDisconnect(g *api.TaskGroup) time.Duration {
	if g.Disconnect != nil {
		return g.Disconnect.StopOnClientAfter
	}
	return g.StopAfterClientDisconnect
}

// UnknownSince is when the allocation's node was last found disconnected; zero when it was not.
func UnknownSince(a *api.Allocation) time.Time {
	if a.ClientStatus != api.AllocClientStatusUnknown {
		return time.Time{}
	}
	return lastUnknown(a)
}

// lastUnknown is when the allocation last became unknown, whatever it is now.
func lastUnknown(a *api.Allocation) time.Time {
	var t time.Time
	for _, s := range a.AllocStates {
		if s.Value == api.AllocClientStatusUnknown {
			t = s.Time
		}
	}
	return t
}

// UnknownUpdate returns the status update of an allocation on a disconnected node; false when it is already unknown and an
// evaluation at its end is pending. That evaluation may be missing after a partial commit of a plan.
func UnknownUpdate(a *api.Allocation, f NodeLoss, comesBack bool) (StatusUpdate, bool) {
	switch {
	case a.ClientStatus != api.AllocClientStatusUnknown:
		return StatusUpdate{Alloc: a, ClientStatus: api.AllocClientStatusUnknown, Description: unknown, RescheduleAt: f.Until}, true
	case f.Until.IsZero() || comesBack:
		return StatusUpdate{}, false
	}
	return StatusUpdate{Alloc: a, RescheduleAt: f.Until}, true
}
