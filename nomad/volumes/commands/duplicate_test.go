package commands_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
)

// twoPlugins has two plugins, of these drivers, on the bed's node with controllers.
func (b *bed) twoPlugins(p, q string) {
	b.edit(func(tx *state.Txn) error {
		n := *tx.Node("n1")
		n.CSIControllerPlugins = map[string]*api.CSIInfo{}
		for id, driver := range map[string]string{"p": p, "q": q} {
			n.CSIControllerPlugins[id] = &api.CSIInfo{
				PluginID: id, Provider: driver, Healthy: true, ControllerInfo: &api.CSIControllerInfo{SupportsAttachDetach: true},
			}
		}
		tx.PutNode(&n)
		return nil
	})
}

func of(plugin string) func(*api.VolumeSpec) {
	return func(s *api.VolumeSpec) { s.PluginID = plugin }
}

func shared(s *api.VolumeSpec) {
	s.RequestedCapabilities[0].AccessMode = api.AccessMultiNodeMultiWriter
}

// By the CSI specification one driver has one volume of an id, by whatever plugin it is reached.
func TestOneVolumeOfADriverIsNotRegisteredByTwoPlugins(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.twoPlugins("d", "d")
	b.register("v", "x")
	w := spec("w", "x")
	of("q")(w)
	b.refused(&commands.Register{Specs: []*api.VolumeSpec{w}}, `volume "w"`, `is volume "v"`, `of plugin "p"`, "register it with that plugin")
	shared(w)
	b.refused(&commands.Register{Specs: []*api.VolumeSpec{w}}, `is volume "v"`)
	b.register("same", "x")
	b.register("other", "y", of("q"))

	b.register("all", "z", shared)
	b.register("all2", "z", of("q"), shared)
	alone := spec("all2", "z")
	of("q")(alone)
	b.refused(&commands.Register{Specs: []*api.VolumeSpec{alone}}, `volume "all2"`, `is volume "all"`)
	b.register("all2", "z", of("q"), shared, func(s *api.VolumeSpec) { s.Parameters = nil })
}

func TestOneIDOfTwoDriversIsTwoVolumes(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.twoPlugins("d", "e")
	b.register("v", "x")
	b.register("w", "x", of("q"))
	b.twoPlugins("d", "")
	b.register("y", "x", of("q")) // nobody knows whose it is
}

func TestCreationIsNotAnsweredByAVolumeOfAnotherPlugin(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.twoPlugins("d", "d")
	b.register("v", "x")
	b.create("w", of("q"))
	b.refused(&commands.Provisioned{Answer: b.answer("w"), ExternalID: "x"}, `volume "v"`, "of the same driver")
	b.must(&commands.Provisioned{Answer: b.answer("w"), ExternalID: "y"})
}

// What a creation that failed has left is a new volume when it is registered.
func TestFailedCreationDoesNotBecomeATwin(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.twoPlugins("d", "d")
	b.register("v", "x")
	b.create("w", of("q"))
	b.must(&commands.Provisioned{Answer: b.answer("w", final)})
	w := spec("w", "x")
	of("q")(w)
	b.refused(&commands.Register{Specs: []*api.VolumeSpec{w}}, `is volume "v"`)
}
