package reconcile

import (
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// NodeLoss is what becomes of a live allocation because of its node. The zero value: nothing.
type NodeLoss struct {
	// Lost says why the allocation is given up for good.
	Lost string
	// Unknown is set while the allocation may still run where nobody can see it.
	Unknown bool
	// Until is when that ends, zero when nothing but the node's return ends it.
	Until time.Time
	// Replace asks for another allocation meanwhile.
	Replace bool
}

// NodeLossOf tells what becomes of a live allocation of the group on the node, which is nil when it is gone.
//
//	node gone                             lost
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

// VolumeLost is why an allocation whose node is there has to go all the same, or "": a volume that it uses there was given up,
// so that its mount is cut off, or somebody else's by now. Volumes that all may share are not cut off.
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

// clientStopTime is when a node that nobody hears has ended the tasks of the group by itself; zero when it does not.
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

// stopAfterDisconnect is how long the group runs on a node that hears no server; 0 means for ever.
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

// UnknownUpdate is the amendment for an allocation that is out of sight; false when it is known to be, and somebody comes
// back to it when that is to end. Who was to come may have been left out with other parts of a plan.
func UnknownUpdate(a *api.Allocation, f NodeLoss, comesBack bool) (StatusUpdate, bool) {
	switch {
	case a.ClientStatus != api.AllocClientStatusUnknown:
		return StatusUpdate{Alloc: a, ClientStatus: api.AllocClientStatusUnknown, Description: unknown, RescheduleAt: f.Until}, true
	case f.Until.IsZero() || comesBack:
		return StatusUpdate{}, false
	}
	return StatusUpdate{Alloc: a, RescheduleAt: f.Until}, true
}
