package sim

// driver is the storage behind the plugin "attach". It refuses nothing that we should not ask.
type driver struct {
	// attached by external id and node.
	attached map[string]map[string]bool
	// late are effects that are still to come, by external id: the driver is busy with them.
	late map[string]bool
	// fences are the newest intents that the controller's host has seen, by external id and node.
	fences  map[string]uint64
	volumes map[string]bool
}

func newDriver() *driver {
	return &driver{attached: map[string]map[string]bool{}, late: map[string]bool{}, fences: map[string]uint64{}, volumes: map[string]bool{}}
}

func (d *driver) set(w *World, external, node string, on bool) {
	if d.attached[external] == nil {
		d.attached[external] = map[string]bool{}
	}
	if on {
		w.tell("driver attaches %s to %s", external, node)
		d.attached[external][node] = true
		return
	}
	w.tell("driver detaches %s from %s", external, node)
	w.mayDetach(external, node)
	delete(d.attached[external], node)
}

// mayDetach asserts that nothing is pulled away from under a mount.
func (w *World) mayDetach(external, id string) {
	for _, n := range w.nodes {
		for _, m := range n.mounts {
			if n.id == id && m.plugin == "attach" && m.external == external && !w.outcast[mountKey(m.alloc, m.volume)] {
				w.fail("%s is detached from %s under the mount of %s", external, id, m.alloc)
			}
		}
	}
}
