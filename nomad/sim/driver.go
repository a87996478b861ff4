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
	// attached by external id and node, with the modes that were asked for.
	attached map[string]map[string]api.VolumeCapability
	// late are effects that are still to come, by external id: the driver is busy with them.
	late map[string]bool
	// hosts run the controller; each remembers on its disk the newest intents that it saw, by external id and node.
	hosts   [2]map[string]uint64
	volumes map[string]bool
	// sizes are of what was expanded, by external id.
	sizes map[string]int64
	// stuck are attachments that the storage never takes away: "external node".
	stuck map[string]bool
}

func newDriver() *driver {
	return &driver{
		attached: map[string]map[string]api.VolumeCapability{}, late: map[string]bool{}, volumes: map[string]bool{}, sizes: map[string]int64{}, stuck: map[string]bool{},
		hosts: [2]map[string]uint64{{}, {}},
	}
}

func (d *driver) set(w *World, external, node string, as api.VolumeCapability, on bool) {
	if d.attached[external] == nil {
		d.attached[external] = map[string]api.VolumeCapability{}
	}
	if on {
		w.tell("driver attaches %s to %s as %s %s", external, node, as.AccessMode, as.AttachmentMode)
		for _, other := range d.nodes(external) {
			before := d.attached[external][other]
			if other != node && (single(as.AccessMode) || single(before.AccessMode)) {
				w.fail("%s is attached to %s as %s and asked for on %s as %s", external, other, before.AccessMode, node, as.AccessMode)
			}
			if other == node && before != as {
				w.fail("%s is asked for on %s as %s %s, and is attached there as %s %s",
					external, node, as.AccessMode, as.AttachmentMode, before.AccessMode, before.AttachmentMode)
			}
		}
		if !d.has(external, node) {
			w.mayAttach(external, node)
		}
		d.attached[external][node] = as
		return
	}
	w.tell("driver detaches %s from %s", external, node)
	w.mayDetach(external, node)
	delete(d.attached[external], node)
}

func (d *driver) has(external, node string) bool { return d.attached[external][node].AccessMode != "" }

// serves reports whether what is attached may be used so: one that was attached for fewer may not.
func (d *driver) serves(external, node string, use api.VolumeCapability) bool {
	as := d.attached[external][node]
	if as.AttachmentMode != use.AttachmentMode {
		return false
	}
	rank := func(m api.AccessMode) int {
		return slices.Index([]api.AccessMode{api.AccessMultiNodeReader, api.AccessMultiNodeSingleWriter, api.AccessMultiNodeMultiWriter}, m)
	}
	return as.AccessMode == use.AccessMode || rank(use.AccessMode) >= 0 && rank(as.AccessMode) >= rank(use.AccessMode)
}

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
