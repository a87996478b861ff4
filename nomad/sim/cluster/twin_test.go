package cluster

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
)

// Volumes that were made get second specs, under another id in another namespace: jobs use them, they are expanded,
// deregistered and deleted beside the first ones.

// elsewhere is the namespace of second specs and of the jobs that use them.
const elsewhere = "other"

// second are the second specs of what is made, in the same order.
var second = []string{"twin-0", "twin-1"}

// home is the namespace of a volume or job.
func home(id string) string {
	if slices.Contains(second, id) {
		return elsewhere
	}
	return api.DefaultNamespace
}

// share registers or deregisters a second spec of a volume that was made, or deregisters the first one.
func (w *World) share() {
	r, tx := w.rnd, w.truth().Read()
	n := r.IntN(len(made))
	id, there := second[n], w.provided(made[n])
	if there == "" {
		n = (n + 1) % len(made)
		id, there = second[n], w.provided(made[n])
	}
	if r.IntN(4) == 0 {
		id = made[n]
	}
	force := r.IntN(2) == 0
	if tx.Volume(home(id), id) != nil {
		go func() {
			_ = w.user(&api.VolumeDeregisterRequest{VolumeID: id, Force: force, WriteRequest: api.WriteRequest{Namespace: home(id)}},
				wire.VolumeDeregister.Name, &api.WriteMeta{})
		}()
		return
	}
	if id = second[n]; there == "" || tx.Volume(elsewhere, id) != nil {
		return
	}
	for _, j := range w.jobs {
		if j.id == id {
			j.wanted = true
		}
	}
	v := spec(id, "attach", writer)
	v.ExternalID = there
	go func() {
		_ = w.user(&api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{v}}, wire.VolumeRegister.Name, &api.VolumeWriteResponse{})
	}()
}

// either is one of the specs of what was made, the second one in half of the cases and where it is the only one.
func (w *World) either(id string) string {
	other := second[slices.Index(made, id)]
	tx, prefers := w.truth().Read(), w.rnd.IntN(2) == 0
	if tx.Volume(elsewhere, other) != nil && (prefers || tx.Volume(home(id), id) == nil) {
		return other
	}
	return id
}

// provided is the provider's id of a volume that was made by that name; empty while it has none.
func (w *World) provided(name string) string {
	for _, v := range w.storage.Known() {
		if v.Name == name {
			return v.ID
		}
	}
	return ""
}

// disowning is the volume that a command forgets, nil for others.
func (s *server) disowning(cmd fsm.Command) *api.Volume {
	if c, ok := cmd.(*commands.Deregister); ok {
		return s.store.Read().Volume(c.Namespace, c.ID)
	}
	return nil
}

// disown takes note that what the provider keeps of a volume is its user's: by name while its id is not known.
func (w *World) disown(v *api.Volume) {
	if v.Provision.ExternalID == "" && v.ExternalID == "" {
		w.archives.forgotten[v.Name] = true
	}
	w.disowned[realID(v.RemoteID())] = true
}

// mayExpand asserts that a volume is expanded for one of its specs at a time.
func (w *World) mayExpand(external string) {
	var expanding []string
	for v := range w.newest().store.Read().Volumes(api.AllNamespaces) {
		if realID(v.RemoteID()) == external && v.Provision.State == api.VolumeExpanding {
			expanding = append(expanding, v.ID)
		}
	}
	if len(expanding) > 1 {
		w.fail("%s is expanded for %s", external, strings.Join(expanding, " and "))
	}
}

// unlike is a volume whose specs do not agree on its capacity, or claim more than it has. It may have more: an expansion
// that failed for good after a lost answer is not looked into, for it can be asked for once more at any time.
func (w *World) unlike(tx *state.Txn) string {
	for _, k := range w.storage.Known() {
		known := map[int64]bool{}
		for v := range tx.VolumesByExternal("attach", k.ID) {
			has := v.Provision.CapacityBytes
			if known[has] = true; len(known) > 1 || has > k.Bytes {
				return fmt.Sprintf("the capacity of %s, %d by %s", k.ID, has, v.ID)
			}
		}
	}
	return ""
}

// alias is what a planted bug puts behind the external id of second specs, so that the servers take them for volumes of
// their own; the drivers know none.
const alias = "@"

func realID(external string) string { return strings.TrimSuffix(external, alias) }

// estranged is a registration whose second specs name volumes of their own.
func estranged(c *commands.Register) *commands.Register {
	next := *c
	next.Specs = nil
	for _, spec := range c.Specs {
		other := *spec
		if home(spec.ID) == elsewhere {
			other.ExternalID = realID(spec.ExternalID) + alias
		}
		next.Specs = append(next.Specs, &other)
	}
	return &next
}

// dealiased has a call name the volume that the driver knows.
func dealiased(args any) {
	m := args.(proto.Message).ProtoReflect()
	f := m.Descriptor().Fields().ByName("volume_id")
	if f != nil && strings.HasSuffix(m.Get(f).String(), alias) {
		m.Set(f, protoreflect.ValueOfString(realID(m.Get(f).String())))
	}
}
