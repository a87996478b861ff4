package sim

import (
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// driver is the storage behind the plugin "attach". It attaches a volume of a single-node mode to one
// node; that it is asked for a second is a broken invariant, as storage that does not refuse is harmed.
type driver struct {
	// attached by external id and node, with the mode that was asked for.
	attached map[string]map[string]api.AccessMode
	// late are effects that are still to come, by external id: the driver is busy with them.
	late map[string]bool
	// fences are the newest intents that the controller's host has seen, by external id and node.
	fences  map[string]uint64
	volumes map[string]bool
}

func newDriver() *driver {
	return &driver{attached: map[string]map[string]api.AccessMode{}, late: map[string]bool{}, fences: map[string]uint64{}, volumes: map[string]bool{}}
}

func (d *driver) set(w *World, external, node string, mode api.AccessMode, on bool) {
	if d.attached[external] == nil {
		d.attached[external] = map[string]api.AccessMode{}
	}
	if on {
		w.tell("driver attaches %s to %s as %s", external, node, mode)
		for _, other := range d.nodes(external) {
			if before := d.attached[external][other]; other != node && (single(mode) || single(before)) {
				w.fail("%s is attached to %s as %s and asked for on %s as %s", external, other, before, node, mode)
			}
		}
		if !d.has(external, node) {
			w.mayAttach(external, node)
		}
		d.attached[external][node] = mode
		return
	}
	w.tell("driver detaches %s from %s", external, node)
	w.mayDetach(external, node)
	delete(d.attached[external], node)
}

func (d *driver) has(external, node string) bool { return d.attached[external][node] != "" }

func (d *driver) nodes(external string) []string {
	return slices.Sorted(maps.Keys(d.attached[external]))
}

func single(m api.AccessMode) bool { return strings.HasPrefix(string(m), "single-node") }

// mayAttach asserts that no mount comes to life again whose claim was given up.
func (w *World) mayAttach(external, id string) {
	w.eachMount(func(n *node, k string, m mount) {
		if n.id == id && m.plugin == "attach" && m.external == external && w.outcast[k] {
			w.fail("%s is attached to %s again under the mount of %s, which was given up", external, id, m.alloc)
		}
	})
}

// mayDetach asserts that nothing is pulled away from under a mount.
func (w *World) mayDetach(external, id string) {
	for _, n := range w.nodes {
		for _, m := range n.mounts {
			if n.id == id && m.plugin == "attach" && m.external == external && !w.outcast[mountKey(m.hold)] {
				w.fail("%s is detached from %s under the mount of %s", external, id, m.alloc)
			}
		}
	}
}
