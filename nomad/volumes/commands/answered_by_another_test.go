package commands_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
)

// A driver may answer a creation with a volume that it knows by that name, and which another specification deletes.
func TestCreationIsNotAnsweredByAVolumeThatIsBeingDeleted(t *testing.T) {
	b := newBed(t)
	b.register("old", "x")
	b.must(b.delete("old"))
	b.create("v")
	b.refused(&commands.Provisioned{Answer: b.answer("v"), ExternalID: "x"}, `"old"`, "being deleted")
	if v := b.volume("v"); v.Provision.State != api.VolumeCreating || v.Provision.ExternalID != "" {
		t.Fatalf("volume is %+v", v.Provision)
	}
	b.confirm("old")
	b.must(&commands.EndDelete{Answer: b.answer("old")})
	b.must(&commands.Provisioned{Answer: b.answer("v"), ExternalID: "x"})
}

// offline has the plugin expand volumes only while nobody uses them.
func (b *bed) offline() {
	b.edit(func(tx *state.Txn) error {
		n := *tx.Node("n1")
		info := *n.CSIControllerPlugins["p"]
		i := *info.ControllerInfo
		i.SupportsExpand, i.OfflineExpansion = true, true
		info.ControllerInfo = &i
		n.CSIControllerPlugins = map[string]*api.CSIInfo{"p": &info}
		tx.PutNode(&n)
		return nil
	})
}

func TestVolumeIsNotAttachedWhileItIsExpandedOffline(t *testing.T) {
	b := newBed(t)
	b.offline()
	b.register("v", "x")
	b.must(&commands.BeginExpand{Namespace: "default", ID: "v", CapacityMinBytes: 10})
	b.mustPlace("a1", "n2", "v")
	if a := b.state.Read().Attachment("p", "x", "n2"); a != nil {
		t.Fatalf("it is %s", a.State)
	}
	b.must(&commands.EndExpand{Answer: b.answer("v"), CapacityBytes: 10})
	if a := b.state.Read().Attachment("p", "x", "n2"); a == nil {
		t.Error("it is never attached")
	}
}

func TestVolumeIsUsedAfterItsExpansionIsForgotten(t *testing.T) {
	b := newBed(t)
	b.offline()
	b.register("v", "x")
	b.register("w", "x")
	b.must(&commands.BeginExpand{Namespace: "default", ID: "v", CapacityMinBytes: 10})
	b.mustPlace("a1", "n2", "w")
	b.must(&commands.Deregister{Namespace: "default", ID: "v", Force: true})
	if a := b.state.Read().Attachment("p", "x", "n2"); a == nil {
		t.Errorf("it is never attached, and its claim is %s", b.state.Read().Claim("default", "w", "a1", "").State)
	}
}

// A creation that is given up does not delete what it was answered with where a specification names that by its id.
func TestCreationThatIsGivenUpSparesWhatIsRegistered(t *testing.T) {
	b := newBed(t)
	b.register("theirs", "x")
	b.create("v")
	b.must(b.delete("v"))
	b.must(&commands.Provisioned{Answer: b.answer("v"), ExternalID: "x"})
	b.confirm("v")
	if v := b.volume("v"); v != nil && v.Provision.State == api.VolumeDeleting {
		t.Errorf("it is deleted: %+v", v.Provision)
	}
	if v := b.volume("theirs"); v == nil || v.Provision.State != api.VolumeAvailable {
		t.Errorf("what is registered is %+v", v)
	}
}

// What its nodes owe to a volume is not forgotten when a creation is answered with it.
func TestCreationThatIsAnsweredByAKnownVolumeTakesNothingFromIt(t *testing.T) {
	b := newBed(t)
	b.offline()
	b.register("v", "x")
	b.must(&commands.BeginExpand{Namespace: "default", ID: "v", CapacityMinBytes: 20})
	b.must(&commands.EndExpand{Answer: b.answer("v"), CapacityBytes: 20, NodesOwe: true})
	b.create("w")
	b.must(&commands.Provisioned{Answer: b.answer("w"), ExternalID: "x", CapacityBytes: 10})
	for _, id := range []string{"v", "w"} {
		if p := b.volume(id).Provision; p.CapacityBytes != 20 || len(p.NodeExpansion) != 1 {
			t.Errorf("%s has %d bytes, and %q owe an expansion", id, p.CapacityBytes, p.NodeExpansion)
		}
	}
}

// Two creations may be answered with one volume at the same time.
func TestTwoCreationsDoNotGetOneVolume(t *testing.T) {
	b := newBed(t)
	b.create("v")
	b.create("w")
	b.must(&commands.Provisioned{Answer: b.answer("v"), ExternalID: "x"})
	b.refused(&commands.Provisioned{Answer: b.answer("w"), ExternalID: "x"}, `"v"`, "made by the name")
	if p := b.volume("w").Provision; p.State != api.VolumeCreating || p.ExternalID != "" {
		t.Errorf("the second is %+v", p)
	}
}
