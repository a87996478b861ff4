package commands_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
)

func TestOneExpansionOfAnExternalVolumeAtATime(t *testing.T) {
	b := newBed(t)
	b.register("v", "x")
	b.register("w", "x")
	b.must(&commands.BeginExpand{Namespace: "default", ID: "v", CapacityMinBytes: 10})
	b.refused(&commands.BeginExpand{Namespace: "default", ID: "w", CapacityMinBytes: 20}, `"v"`, "being expanded")
	b.refused(&commands.Deregister{Namespace: "default", ID: "v"}, "being expanded")
	b.must(&commands.EndExpand{Answer: b.answer("v"), CapacityBytes: 10})
	b.must(&commands.BeginExpand{Namespace: "default", ID: "w", CapacityMinBytes: 20})
}

func TestExpansionIsThatOfAllSpecs(t *testing.T) {
	b := newBed(t)
	b.register("v", "x")
	b.register("w", "x")
	b.must(&commands.BeginExpand{Namespace: "default", ID: "v", CapacityMinBytes: 10})
	b.must(&commands.EndExpand{Answer: b.answer("v"), CapacityBytes: 10, NodesOwe: true})
	b.register("late", "x")
	for _, id := range []string{"v", "w", "late"} {
		if p := b.volume(id).Provision; p.CapacityBytes != 10 || !slices.Equal(p.NodeExpansion, []string{commands.AnyNode}) {
			t.Errorf("%s has %+v", id, p)
		}
	}
	b.must(&commands.NodeExpanded{Namespace: "default", ID: "w", NodeID: "n1"})
	for _, id := range []string{"v", "w", "late"} {
		if p := b.volume(id).Provision; len(p.NodeExpansion) != 0 {
			t.Errorf("%s owes %v", id, p.NodeExpansion)
		}
	}
}

func TestNodesOfAllSpecsOweAnExpansion(t *testing.T) {
	b := newBed(t)
	b.register("v", "x")
	b.register("w", "x")
	b.mustPlace("a1", "n2", "w")
	b.must(&commands.BeginExpand{Namespace: "default", ID: "v", CapacityMinBytes: 10})
	b.must(&commands.EndExpand{Answer: b.answer("v"), CapacityBytes: 10, NodesOwe: true})
	if owed := b.volume("w").Provision.NodeExpansion; !slices.Equal(owed, []string{"n2"}) {
		t.Errorf("owed by %v", owed)
	}
}

func TestCapacityIsNeverNonsense(t *testing.T) {
	b := newBed(t)
	b.create("v")
	b.must(&commands.Provisioned{Answer: b.answer("v"), ExternalID: "x", CapacityBytes: 100})
	for _, said := range []int64{0, -1} {
		b.must(&commands.BeginExpand{Namespace: "default", ID: "v", CapacityMinBytes: 300})
		b.must(&commands.EndExpand{Answer: b.answer("v"), CapacityBytes: said})
		if got := b.volume("v").Provision.CapacityBytes; got != 100 {
			t.Errorf("the driver said %d, and the capacity is %d", said, got)
		}
	}
}

func TestNewSpecOfAKnownVolumeHasWhatItsDriverSaid(t *testing.T) {
	b := newBed(t)
	b.create("v", func(s *api.VolumeSpec) { s.Context = map[string]string{"of": "the user"} })
	b.must(&commands.Provisioned{
		Answer: b.answer("v"), ExternalID: "x", CapacityBytes: 100,
		Context: map[string]string{"of": "the driver"}, Topologies: []*api.Topology{{Segments: map[string]string{"zone": "a"}}},
	})
	b.register("w", "x", func(s *api.VolumeSpec) { s.Context = map[string]string{"of": "another user"} })
	w := b.volume("w")
	if !maps.Equal(w.DriverContext(), map[string]string{"of": "the driver"}) || w.Provision.CapacityBytes != 100 || len(w.Provision.Topologies) != 1 {
		t.Errorf("w has %+v", w.Provision)
	}
}

func TestContextOfACreatedVolumeIsTheDriversEvenWhenItIsEmpty(t *testing.T) {
	b := newBed(t)
	b.create("v", func(s *api.VolumeSpec) { s.Context = map[string]string{"of": "the user"} })
	b.must(&commands.Provisioned{Answer: b.answer("v"), ExternalID: "x"})
	if got := b.volume("v").DriverContext(); got != nil {
		t.Errorf("context is %v", got)
	}
}
