package commands_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/apitest"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
)

// Each field of a new spec is taken, or refused with its reason: none is taken in silence and forgotten.
func TestEveryFieldOfANewSpecIsTakenOrRefused(t *testing.T) {
	t.Parallel()
	// The name of the volume is how it was found. Capacities of a volume that is larger already go to an expansion.
	elsewhere := []string{"ID", "Namespace"}
	base := func() *api.Volume {
		v := &api.Volume{VolumeSpec: *apitest.Full(&api.VolumeSpec{})}
		v.Provision = api.VolumeProvision{
			State: api.VolumeAvailable, ExternalID: v.ExternalID, CapacityBytes: 1 << 30, Topologies: []*api.Topology{{}},
		}
		return v
	}
	for name, change := range map[string]func(*api.VolumeProvision){
		"with topologies":             func(*api.VolumeProvision) {},
		"without topologies":          func(p *api.VolumeProvision) { p.Topologies = nil },
		"created without topologies":  func(p *api.VolumeProvision) { p.Topologies, p.Created = nil, true },
		"created with its topologies": func(p *api.VolumeProvision) { p.Created = true },
	} {
		for _, f := range apitest.Fields(&api.VolumeSpec{}, elsewhere...) {
			spec, old := apitest.Full(&api.VolumeSpec{}), base()
			f.Set(spec)
			change(&old.Provision)
			next, err := commands.Merged(old, spec, nil)
			if err == nil && !reflect.DeepEqual(f.Get(&next.VolumeSpec), f.Get(spec)) {
				t.Errorf("%s: %s is %v, and %v was asked for without an error", name, f.Path, f.Get(&next.VolumeSpec), f.Get(spec))
			}
			if err != nil && !strings.Contains(err.Error(), "cannot change") {
				t.Errorf("%s: %s is refused: %v", name, f.Path, err)
			}
		}
	}
}

func zone(name string) *api.TopologyRequest {
	return &api.TopologyRequest{Required: []*api.Topology{{Segments: map[string]string{"zone": name}}}}
}

// A volume that was registered without topologies gets those that its spec tells later; they are its external volume's.
func TestTopologiesMayBeToldLater(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.register("v", "x")
	b.register("w", "x")
	b.register("v", "x", func(s *api.VolumeSpec) { s.RequestedTopologies = zone("a") })
	for _, id := range []string{"v", "w"} {
		if got := b.volume(id).Provision.Topologies; len(got) != 1 || got[0].Segments["zone"] != "a" {
			t.Errorf("%s has %v", id, got)
		}
	}
	if got := b.volume("v").RequestedTopologies; !reflect.DeepEqual(got, zone("a")) {
		t.Errorf("the spec has %v", got)
	}
	b.register("v", "x") // says nothing of them
	again := spec("v", "x")
	again.RequestedTopologies = zone("b")
	if _, err := b.do(&commands.Register{Specs: []*api.VolumeSpec{again}}); fault.Of(err) != fault.Invalid || !strings.Contains(err.Error(), "topology_request cannot change") {
		t.Errorf("another one: %v", err)
	}
}

// Clients that send all fields say nothing by an empty list, nor by a request without any topology.
func TestTopologiesAreTheSameHoweverNothingIsSaid(t *testing.T) {
	t.Parallel()
	empty := &api.TopologyRequest{Required: []*api.Topology{}, Preferred: []*api.Topology{}}
	full := zone("a")
	full.Preferred = []*api.Topology{}
	for name, c := range map[string]struct {
		was, is *api.TopologyRequest
		refused bool
	}{
		"an empty list":             {zone("a"), full, false},
		"no topologies":             {nil, empty, false},
		"other topologies":          {zone("a"), zone("b"), true},
		"none any more":             {zone("a"), empty, true},
		"preferred where none were": {zone("a"), &api.TopologyRequest{Required: zone("a").Required, Preferred: zone("b").Required}, true},
	} {
		old := &api.Volume{VolumeSpec: *spec("v", "x"), Provision: api.VolumeProvision{Topologies: zone("a").Required}}
		old.RequestedTopologies = c.was
		next := spec("v", "x")
		next.RequestedTopologies = c.is
		if _, err := commands.Merged(old, next, nil); (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Where a volume that was created can be used is for its driver to say.
func TestTopologiesOfACreatedVolumeCannotChange(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.create("v")
	b.must(&commands.Provisioned{Answer: b.answer("v"), ExternalID: "x"})
	for request, refused := range map[*api.TopologyRequest]bool{zone("a"): true, {}: false, nil: false} {
		s := spec("v", "")
		s.RequestedTopologies = request
		if _, err := b.do(&commands.Register{Specs: []*api.VolumeSpec{s}}); refused != (fault.Of(err) == fault.Invalid) || refused && !strings.Contains(err.Error(), "topology_request cannot change") {
			t.Errorf("%v: %v", request, err)
		}
	}
}
