package script

import (
	"fmt"
	"slices"
	"strings"
)

// Overlaps lists pairs of calls for one volume that were in flight at once and must not be: any two at the
// controllers, whichever they are; any two on one node; and one at a controller concurrently with one on the node that
// it is about. Calls without an end, whose driver was killed, are left out.
func Overlaps(calls []Call) []string {
	var found []string
	for i, a := range calls {
		for _, b := range calls[i+1:] {
			if !a.Ended.IsZero() && b.At.Before(a.Ended) && clash(a, b) {
				found = append(found, fmt.Sprintf("%s and %s of %s at once", a.where(), b.where(), a.Volume))
			}
		}
	}
	return slices.Compact(found)
}

// harmless are calls that change nothing; any number may be in flight.
var harmless = []string{"ValidateVolumeCapabilities", "ControllerGetVolume", "NodeGetVolumeStats", "NodeGetVolumeHealth", "ControllerGetVolumeHealth"}

func clash(a, b Call) bool {
	if a.Volume == "" || a.Volume != b.Volume || slices.Contains(harmless, a.RPC) || slices.Contains(harmless, b.RPC) {
		return false
	}
	switch {
	case a.onNode() && b.onNode():
		return a.Node == b.Node
	case a.onNode():
		a, b = b, a
	case !b.onNode():
		return true
	}
	return a.To == Anywhere || a.To == b.Node
}

func (c Call) onNode() bool { return strings.HasPrefix(c.RPC, "Node") }

func (c Call) where() string {
	if c.onNode() {
		return c.RPC + " on " + c.Node
	}
	return c.RPC + " for " + c.To + " by " + c.Node
}
