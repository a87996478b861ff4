package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
)

// user does what users and the scheduler do.
func (w *World) user() {
	live := w.allocs(func(a *api.Allocation) bool { return !a.Terminal() })
	switch n := w.rnd.IntN(24); {
	case n < 8 || len(live) == 0:
		w.place(nil)
	case n < 12:
		w.place(live[w.rnd.IntN(len(live))])
	case n < 14:
		w.stop(live[w.rnd.IntN(len(live))])
	case n < 17:
		w.share()
	case n < 19:
		w.provision()
	case n < 20:
		w.expand()
	case n < 22:
		w.forget()
	case n < 23:
		w.rotate()
	default:
		w.operate(false)
	}
}

func (w *World) allocs(want func(*api.Allocation) bool) []*api.Allocation {
	return slices.DeleteFunc(slices.Collect(w.store.Read().Allocs(api.AllNamespaces)), func(a *api.Allocation) bool { return !want(a) })
}

// place places an allocation, in the place of another one if it is given.
func (w *World) place(old *api.Allocation) {
	w.next++
	id := fmt.Sprintf("a%03d", w.next)
	job := fmt.Sprintf("job%d", w.rnd.IntN(3))
	volumes := w.requests()
	node := w.nodes[w.rnd.IntN(len(w.nodes))].id
	if w.back != "" && w.rnd.IntN(3) == 0 { // it has the most room
		node = w.back
		if id := w.givenUp(node); id != "" && w.rnd.IntN(2) == 0 { // the job is wanted back where it was
			volumes["one"] = w.request(id)
		}
	}
	stopping := map[string]bool{}
	what := fmt.Sprintf("place %s of %s on %s with %s", id, job, node, sources(volumes))
	if old != nil {
		job, volumes = old.JobID, old.Job.TaskGroups[0].Volumes
		stopping[old.ID] = true
		what = fmt.Sprintf("place %s of %s on %s instead of %s on %s", id, job, node, old.ID, old.NodeID)
	}
	g := &api.TaskGroup{Name: "g", Volumes: volumes}
	a := &api.Allocation{
		ID: id, Namespace: "default", Name: job + ".g[0]", NodeID: node, JobID: job, TaskGroup: "g",
		Job:           &api.Job{ID: job, Namespace: "default", TaskGroups: []*api.TaskGroup{g}},
		DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusPending,
	}
	err := w.propose(what, func(tx *state.Txn) error {
		if tx.Node(node).Status != api.NodeStatusReady {
			return fmt.Errorf("node %s is down", node)
		}
		if old != nil {
			if err := w.over(tx, old.ID, func(a *api.Allocation) { a.DesiredStatus = api.AllocDesiredStatusStop }); err != nil {
				return err
			}
		}
		tx.PutAlloc(a)
		return w.rules.Take(tx, a, stopping)
	})
	if err == nil {
		w.count(id)
	}
}

// givenUp is a volume that a node has mounted still, though its claim was given up.
func (w *World) givenUp(id string) string {
	i := slices.IndexFunc(w.nodes, func(n *node) bool { return n.id == id })
	for _, k := range slices.Sorted(maps.Keys(w.nodes[i].mounts)) {
		if w.outcast[k] {
			return w.nodes[i].mounts[k].hold.VolumeID
		}
	}
	return ""
}

// count counts the claims of a new allocation.
func (w *World) count(alloc string) {
	for c := range w.store.Read().ClaimsByAlloc(alloc) {
		w.story.Claims++
		if c.State == api.ClaimWaiting {
			w.story.Waited++
			w.tell("%s waits for %s of %s", alloc, c.VolumeID, c.Predecessor)
		}
	}
}

func (w *World) requests() map[string]*api.VolumeRequest {
	request := func() *api.VolumeRequest {
		id := specs[w.rnd.IntN(len(specs))].id
		if made := []string{"made-0", "made-1", "made-2", "other-0", "other-1", "other-2"}[w.rnd.IntN(6)]; w.rnd.IntN(3) == 0 && w.store.Read().Volume("default", made) != nil {
			id = made
		}
		if w.wanted != "" {
			id = w.wanted
		}
		return w.request(id)
	}
	requests := map[string]*api.VolumeRequest{"one": request()}
	switch w.rnd.IntN(8) {
	case 0:
		requests["two"] = request()
	case 1: // the same volume in another way
		requests["two"] = w.request(requests["one"].Source)
	}
	return requests
}

// request asks for a volume by one of its capabilities, or leaves it open which.
func (w *World) request(id string) *api.VolumeRequest {
	r := &api.VolumeRequest{Type: api.VolumeTypeCSI, Source: id, ReadOnly: w.rnd.IntN(4) == 0}
	v := w.store.Read().Volume("default", id)
	if v == nil {
		return r
	}
	c := v.RequestedCapabilities[0]
	if i := w.rnd.IntN(len(v.RequestedCapabilities) + 1); i > 0 {
		c = v.RequestedCapabilities[i-1]
		r.AccessMode, r.AttachmentMode = string(c.AccessMode), string(c.AttachmentMode)
	}
	if c.AccessMode.ReadOnly() {
		r.ReadOnly = w.rnd.IntN(16) != 0
	}
	return r
}

func sources(requests map[string]*api.VolumeRequest) string {
	var list []string
	for _, alias := range slices.Sorted(maps.Keys(requests)) {
		s := strings.TrimSpace(requests[alias].Source + " " + requests[alias].AccessMode)
		if requests[alias].ReadOnly {
			s += " read-only"
		}
		list = append(list, s)
	}
	return strings.Join(list, ", ")
}

// over changes an allocation and lets its claims follow.
func (w *World) over(tx *state.Txn, id string, change func(*api.Allocation)) error {
	old := tx.Alloc(id)
	if old == nil {
		return fmt.Errorf("allocation %s is gone", id)
	}
	next := *old
	change(&next)
	tx.PutAlloc(&next)
	if w.bug == BugForgottenClaim && next.ClientStatus == api.AllocClientStatusFailed {
		return nil
	}
	return w.rules.AllocChanged(tx, &next)
}

func (w *World) stop(a *api.Allocation) {
	_ = w.propose("stop "+a.ID, func(tx *state.Txn) error {
		return w.over(tx, a.ID, func(a *api.Allocation) { a.DesiredStatus = api.AllocDesiredStatusStop })
	})
}

// forget deletes the row of an allocation that is over, whatever its claims do.
func (w *World) forget() {
	over := w.allocs(func(a *api.Allocation) bool { return a.ClientTerminal() })
	if len(over) == 0 {
		return
	}
	id := over[w.rnd.IntN(len(over))].ID
	_ = w.propose("forget "+id, func(tx *state.Txn) error { tx.DeleteAlloc(id); return nil })
}

// provision asks for a volume to be made or deleted.
func (w *World) provision() {
	id := fmt.Sprintf("made-%d", w.rnd.IntN(3))
	if w.store.Read().Volume("default", id) != nil && w.rnd.IntN(2) == 0 {
		_, _ = w.command("delete "+id, &commands.BeginDelete{Namespace: "default", ID: id})
		return
	}
	if w.bug == BugUnintendedVolume {
		w.driver.volumes[id] = true
		if w.faulty(20) {
			w.tell("the leader dies after it asked for %s", id)
			return
		}
	}
	_, _ = w.command("create "+id, &commands.Intend{Spec: &api.VolumeSpec{
		ID: id, Name: id, Namespace: "default", PluginID: "attach",
		RequestedCapabilities: []*api.VolumeCapability{{AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem}},
	}})
}

// share registers or deregisters a second spec of a volume that was made, or deregisters the first one.
func (w *World) share() {
	n := w.rnd.IntN(3)
	for range 2 {
		if !w.driver.volumes[fmt.Sprintf("made-%d", n)] {
			n = (n + 1) % 3
		}
	}
	id, external := fmt.Sprintf("other-%d", n), fmt.Sprintf("x-made-%d", n)
	if w.rnd.IntN(4) == 0 {
		id = fmt.Sprintf("made-%d", n)
	}
	tx := w.store.Read()
	if tx.Volume("default", id) != nil {
		if _, err := w.command("deregister "+id, &commands.Deregister{Namespace: "default", ID: id, Force: w.rnd.IntN(2) == 0}); err == nil {
			w.disowned[external] = true
		}
		return
	}
	if !w.driver.volumes[fmt.Sprintf("made-%d", n)] {
		return
	}
	spec := api.VolumeSpec{
		ID: id, Name: id, Namespace: "default", PluginID: "attach", ExternalID: external,
		RequestedCapabilities: []*api.VolumeCapability{{AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem}},
	}
	if w.bug == BugSpecLocked {
		w.must("register "+id+" unseen", func(tx *state.Txn) error {
			tx.PutVolume(&api.Volume{VolumeSpec: spec, Provision: api.VolumeProvision{State: api.VolumeAvailable, ExternalID: external}})
			return nil
		})
	} else if _, err := w.command("register "+id, &commands.Register{Specs: []*api.VolumeSpec{&spec}}); err != nil {
		return
	}
	w.wanted = id // for a job that uses it
	w.place(nil)
	w.wanted = ""
}
