package commands_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
)

func from(snapshot string) func(*api.VolumeSpec) {
	return func(s *api.VolumeSpec) { s.SnapshotID = snapshot }
}

func TestCreationIsJoinedByTheSameRequestOnly(t *testing.T) {
	for name, other := range map[string]func(*api.VolumeSpec){
		"snapshot":   from("snap-sunday"),
		"capacity":   func(s *api.VolumeSpec) { s.RequestedCapacityMin = 20 },
		"clone":      func(s *api.VolumeSpec) { s.SnapshotID, s.CloneID = "", "snap-monday" },
		"parameters": func(s *api.VolumeSpec) { s.Parameters = map[string]string{"tier": "hot"} },
		"topology": func(s *api.VolumeSpec) {
			s.RequestedTopologies = &api.TopologyRequest{Required: []*api.Topology{{Segments: map[string]string{"zone": "b"}}}}
		},
		"mount options": func(s *api.VolumeSpec) { s.MountOptions = &api.MountOptions{FSType: "xfs"} },
	} {
		b := newBed(t)
		first := func(s *api.VolumeSpec) {
			s.SnapshotID, s.RequestedCapacityMin, s.Parameters = "snap-monday", 10, map[string]string{"tier": "old"}
		}
		operation := b.create("v", first)
		if again := b.create("v", first); again != operation || b.volume("v").Provision.Replaces != nil {
			t.Errorf("%s: the same request is not joined", name)
		}
		if next := b.create("v", first, other); next == operation {
			t.Errorf("%s: a request with another %s is joined", name, name)
		}
		if r := b.volume("v").Provision.Replaces; r == nil || r.SnapshotID != "snap-monday" || r.Parameters["tier"] != "old" {
			t.Errorf("%s: the earlier creation is forgotten: %+v", name, r)
		}
	}
}

func TestJoinedCreationTakesWhatItsDriverIsNotAsked(t *testing.T) {
	b := newBed(t)
	operation := b.create("v")
	call := b.volume("v").Provision.Intent
	b.create("v", func(s *api.VolumeSpec) { s.OnNodeLoss = api.NodeLossWait })
	if v := b.volume("v"); v.OnNodeLoss != api.NodeLossWait || v.Provision.Intent != call {
		t.Errorf("volume is %+v", v)
	}
	if joined := b.create("v", func(s *api.VolumeSpec) { s.Secrets = map[string]string{"key": "right"} }); joined != operation {
		t.Errorf("operation is %d, not %d", joined, operation)
	}
	if p := b.volume("v").Provision; p.Intent == call || !p.Uncertain || commands.CreateRequest(b.volume("v")).Secrets["key"] != "right" {
		t.Errorf("what the call with other secrets does is taken for known: %+v", p)
	}
}

func TestCorrectedCreationUndoesTheEarlierOneFirst(t *testing.T) {
	b := newBed(t)
	b.create("v", from("typo"))
	b.must(&commands.Provisioned{Answer: b.answer("v", uncertain)})
	b.create("v", from("right"))
	if r := commands.CreateRequest(b.volume("v")); r.SnapshotID != "typo" {
		t.Fatalf("the driver is asked for %+v", r)
	}
	b.must(&commands.Provisioned{Answer: b.answer("v"), ExternalID: "x"})
	doomed := commands.Doomed(b.volume("v"))
	if doomed == nil || doomed.RemoteID() != "x" {
		t.Fatalf("what is undone is %+v", doomed)
	}
	b.refused(&commands.Register{Specs: []*api.VolumeSpec{spec("w", "x")}}, "earlier creation", `"v"`)
	if c := b.confirm("v"); c.Intent == 0 {
		t.Fatalf("the undo is refused: %s", c.Reason)
	}
	b.must(&commands.EndDelete{Answer: b.answer("v")})
	if v := b.volume("v"); v.Provision.Replaces != nil || v.Provision.State != api.VolumeCreating || commands.CreateRequest(v).SnapshotID != "right" {
		t.Fatalf("volume is %+v", v.Provision)
	}
	b.must(&commands.Provisioned{Answer: b.answer("v"), ExternalID: "y", CapacityBytes: 7})
	if v := b.volume("v"); v.Provision.State != api.VolumeAvailable || v.RemoteID() != "y" || !v.Provision.Created {
		t.Errorf("volume is %+v", v.Provision)
	}
}

func TestAnswerUnderWayCountsForTheCreationThatIsReplaced(t *testing.T) {
	b := newBed(t)
	b.create("v", from("typo"))
	late := b.answer("v")
	b.create("v", from("right"))
	b.create("v", from("right indeed"))
	if r := b.volume("v").Provision.Replaces; r == nil || r.SnapshotID != "typo" {
		t.Fatalf("the driver was asked for %+v", r)
	}
	b.must(&commands.Provisioned{Answer: late, ExternalID: "x"})
	if d := commands.Doomed(b.volume("v")); d == nil || d.RemoteID() != "x" {
		t.Fatalf("what is undone is %+v", d)
	}
	b.refused(&commands.Provisioned{Answer: late, ExternalID: "x"})
}

func TestRefusedCreationIsReplacedAtOnce(t *testing.T) {
	b := newBed(t)
	b.create("v", from("typo"))
	b.must(&commands.Provisioned{Answer: b.answer("v", final)})
	b.create("v", from("right"))
	if v := b.volume("v"); v.Provision.Replaces != nil || v.Provision.State != api.VolumeCreating {
		t.Errorf("volume is %+v", v.Provision)
	}
	b = newBed(t)
	b.create("v", from("typo"))
	b.create("v", from("right"))
	b.must(&commands.Provisioned{Answer: b.answer("v", final)}) // the first one made nothing
	if v := b.volume("v"); v.Provision.Replaces != nil || commands.CreateRequest(v).SnapshotID != "right" {
		t.Errorf("volume is %+v", v.Provision)
	}
}

func TestCreationThatMayHaveHadItsEffectIsNotForgotten(t *testing.T) {
	b := newBed(t)
	b.create("v")
	b.must(&commands.Provisioned{Answer: b.answer("v", uncertain)})
	b.must(&commands.Provisioned{Answer: b.answer("v", final, func(a *commands.Answer) { a.Uncertain = true })})
	if p := b.volume("v").Provision; p.State != api.VolumeFailed || !p.Uncertain {
		t.Fatalf("volume is %+v", p)
	}
	both := []string{"nomad volume create", "nomad volume delete v"}
	b.refused(&commands.Register{Specs: []*api.VolumeSpec{spec("v", "y")}}, both...)
	b.refused(&commands.Deregister{Namespace: "default", ID: "v"}, both...)
	if operation := b.must(b.delete("v")); operation == uint64(0) {
		t.Fatal("the row is gone, and what it stands for may be there")
	}
	b.must(&commands.Provisioned{Answer: b.answer("v", final, func(a *commands.Answer) { a.Uncertain = true })})
	if v := b.volume("v"); v == nil || v.Provision.State != api.VolumeFailed || !v.Provision.Uncertain {
		t.Fatalf("volume is %+v", v)
	}
	b.must(b.delete("v"))
	b.must(&commands.Provisioned{Answer: b.answer("v", final)}) // the provider says that it has none
	if b.volume("v") != nil {
		t.Error("the volume is still there")
	}
}

func TestUnfinishedCreationNamesItsWaysOut(t *testing.T) {
	b := newBed(t)
	b.create("v")
	for _, c := range []*commands.Deregister{{Namespace: "default", ID: "v"}, {Namespace: "default", ID: "v", Force: true}} {
		b.refused(c, "nomad volume create", "nomad volume delete v")
	}
	b.refused(&commands.Register{Specs: []*api.VolumeSpec{spec("v", "x")}}, "nomad volume create", "nomad volume delete v")
}

func TestGivenUpCreationIsCleanedUp(t *testing.T) {
	b := newBed(t)
	b.create("v", from("typo"))
	late := b.answer("v")
	b.create("v", from("right"))
	b.must(b.delete("v"))
	b.must(&commands.Provisioned{Answer: late, ExternalID: "x"})
	if c := b.confirm("v"); c.Intent == 0 {
		t.Fatalf("the undo is refused: %s", c.Reason)
	}
	b.must(&commands.EndDelete{Answer: b.answer("v")})
	if b.volume("v") != nil {
		t.Error("the volume, which was never asked for, is still there")
	}
}

func TestUndoSparesWhatIsRegisteredMeanwhile(t *testing.T) {
	b := newBed(t)
	b.create("v", from("typo"))
	b.register("w", "x") // found at the provider
	b.create("v", from("right"))
	b.must(&commands.Provisioned{Answer: b.answer("v"), ExternalID: "x"})
	if c := b.confirm("v"); c.Intent != 0 || !strings.Contains(c.Reason, `"w"`) {
		t.Fatalf("what is registered as w is deleted: %+v", c)
	}
	if v := b.volume("v"); v.Provision.Replaces != nil || v.Provision.State != api.VolumeCreating || v.Provision.LastError != kept {
		t.Errorf("volume is %+v", v.Provision)
	}
}

func TestUndoThatIsRefusedIsTriedAgainByTheNextRequest(t *testing.T) {
	b := newBed(t)
	b.create("v", from("typo"))
	b.create("v", from("right"))
	b.must(&commands.Provisioned{Answer: b.answer("v"), ExternalID: "x"})
	b.confirm("v")
	b.must(&commands.EndDelete{Answer: b.answer("v", final)})
	if p := b.volume("v").Provision; p.State != api.VolumeFailed || p.Replaces == nil || p.LastError != "refused" {
		t.Fatalf("volume is %+v", p)
	}
	b.create("v", from("right"))
	if d := commands.Doomed(b.volume("v")); d == nil || d.RemoteID() != "x" {
		t.Errorf("what is undone is %+v", d)
	}
	b.confirm("v")
	b.must(&commands.EndDelete{Answer: b.answer("v", final)})
	b.refused(&commands.Deregister{Namespace: "default", ID: "v"}, "nomad volume delete v")
	b.must(&commands.Deregister{Namespace: "default", ID: "v", Force: true})
}

func TestNameOfACreationThatIsUndoneIsTaken(t *testing.T) {
	b := newBed(t)
	b.create("v")
	b.create("v", func(s *api.VolumeSpec) { s.Name = "other" })
	b.refused(&commands.Intend{Spec: func() *api.VolumeSpec { s := spec("w", ""); s.Name = "v"; return s }()}, `"v"`)
}
