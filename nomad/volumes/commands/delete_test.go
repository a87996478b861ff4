package commands_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
)

func TestVolumeBeingDeletedIsOutOfReachThroughEverySpec(t *testing.T) {
	b := newBed(t)
	b.register("v", "x")
	b.must(b.delete("v"))
	b.refused(&commands.Register{Specs: []*api.VolumeSpec{spec("w", "x")}}, `"w"`, `"v"`, "being deleted")
	b.refused(&commands.Register{Specs: []*api.VolumeSpec{spec("v", "x")}}, "being deleted")
	b.refused(&commands.Intend{Spec: spec("v", "")}, "deleting")
	b.refused(&commands.Deregister{Namespace: "default", ID: "v"}, "being deleted")
	b.refused(&commands.BeginExpand{Namespace: "default", ID: "v"}, "deleting")
	b.refused(&commands.IntendSnapshot{Intent: &api.SnapshotIntent{PluginID: "p", Name: "s", ExternalID: "x"}}, "being deleted")
	if err := b.place("a1", "n1", "v"); err == nil || !strings.Contains(err.Error(), "being deleted") {
		t.Errorf("claim: %v", err)
	}
	b.register("other", "y")
}

// TestOlderSpecsOfAVolumeBeingDeleted is about states of before this was refused.
func TestOlderSpecsOfAVolumeBeingDeleted(t *testing.T) {
	b := newBed(t)
	b.register("v", "x")
	b.register("w", "x")
	b.edit(func(tx *state.Txn) error {
		v := *tx.Volume("default", "v")
		v.Provision.State, v.Provision.Intent = api.VolumeDeleting, tx.Index()
		tx.PutVolume(&v)
		return nil
	})
	if err := b.place("a1", "n1", "w"); err == nil || !strings.Contains(err.Error(), `"v"`) {
		t.Errorf("claim: %v", err)
	}
	b.refused(&commands.Register{Specs: []*api.VolumeSpec{spec("w", "x")}}, `"v"`)
	b.refused(&commands.Deregister{Namespace: "default", ID: "w"}, `"v"`)
	b.refused(&commands.BeginExpand{Namespace: "default", ID: "w"}, `"v"`)
	if c := b.confirm("v"); c.Intent != 0 || !strings.Contains(c.Reason, `"w"`) {
		t.Errorf("the deletion is confirmed: %+v", c)
	}
	if v := b.volume("v"); v.Provision.State != api.VolumeAvailable || !strings.Contains(v.Provision.LastError, `"w"`) {
		t.Errorf("volume is %+v", v.Provision)
	}
}

func TestDeletionIsRefusedWhileSomethingHangsOnTheVolume(t *testing.T) {
	b := newBed(t)
	b.register("v", "x")
	b.mustPlace("a1", "n1", "v")
	b.refused(b.delete("v"), "allocation a1")
	b = newBed(t)
	b.register("v", "x")
	b.register("w", "x")
	b.refused(b.delete("v"), `"w"`, "deregister")
	b = newBed(t)
	b.register("v", "x")
	b.must(&commands.IntendSnapshot{Intent: &api.SnapshotIntent{PluginID: "p", Name: "s", ExternalID: "x"}})
	b.refused(b.delete("v"), `snapshot "s"`)
}

func TestDeletionIsCancelledWhenSomebodyCame(t *testing.T) {
	for name, comes := range map[string]func(*state.Txn){
		"a claim": func(tx *state.Txn) {
			tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "v", AllocID: "a", NodeID: "n1", PluginID: "p", ExternalID: "x", State: api.ClaimTaken})
		},
		"an attachment": func(tx *state.Txn) {
			tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "x", NodeID: "n1", State: api.AttachmentPublished})
		},
		"a spec": func(tx *state.Txn) {
			tx.PutVolume(&api.Volume{VolumeSpec: *spec("w", "x"), Provision: api.VolumeProvision{State: api.VolumeAvailable, ExternalID: "x"}})
		},
	} {
		b := newBed(t)
		b.register("v", "x")
		b.must(b.delete("v"))
		b.edit(func(tx *state.Txn) error { comes(tx); return nil })
		if c := b.confirm("v"); c.Intent != 0 || c.Reason == "" {
			t.Errorf("%s: the deletion is confirmed: %+v", name, c)
		}
		if v := b.volume("v"); v.Provision.State != api.VolumeAvailable || v.Provision.LastError == "" {
			t.Errorf("%s: volume is %+v", name, v.Provision)
		}
	}
}

func TestAnswersToEarlierDeletesAreRefused(t *testing.T) {
	b := newBed(t)
	b.register("v", "x")
	operation := b.must(b.delete("v")).(uint64)
	first := b.answer("v", final)
	if c := b.confirm("v"); c.Intent != b.state.Read().Index() {
		t.Fatalf("the intent is %+v", c)
	}
	if got := b.volume("v").Provision.Operation(); got != operation {
		t.Errorf("who waits for %d would miss the end of %d", operation, got)
	}
	b.refused(&commands.EndDelete{Answer: first})
	b.must(&commands.EndDelete{Answer: b.answer("v")})
	if b.volume("v") != nil {
		t.Error("the volume is still there")
	}
}

func TestRefusedDeletionLeavesTheStoredSecrets(t *testing.T) {
	b := newBed(t)
	b.register("v", "x", func(s *api.VolumeSpec) { s.Secrets = map[string]string{"key": "right", "user": "u"} })
	del := b.delete("v")
	del.Secrets = map[string]string{"key": "typo"}
	b.must(del)
	if got := b.volume("v").CallSecrets(); !maps.Equal(got, map[string]string{"key": "typo", "user": "u"}) {
		t.Errorf("the driver is called with %v", got)
	}
	del.Secrets = map[string]string{"key": "better"}
	first := b.answer("v", final)
	b.must(del)
	if got := b.volume("v").CallSecrets()["key"]; got != "better" {
		t.Errorf("corrected secrets are %q", got)
	}
	b.refused(&commands.EndDelete{Answer: first})
	b.must(&commands.EndDelete{Answer: b.answer("v", final)})
	v := b.volume("v")
	if v.Provision.State != api.VolumeAvailable || v.Secrets["key"] != "right" || v.Provision.IntentSecrets != nil || v.CallSecrets()["key"] != "right" {
		t.Errorf("volume is %+v", v)
	}
}

func TestDeregisterByForceEndsADeletionOnlyWithoutControllers(t *testing.T) {
	b := newBed(t)
	b.register("v", "x")
	b.must(b.delete("v"))
	force := &commands.Deregister{Namespace: "default", ID: "v", Force: true}
	b.refused(force, "a node reports one")
	b.edit(func(tx *state.Txn) error {
		n := *tx.Node("n1")
		n.CSIControllerPlugins = nil
		tx.PutNode(&n)
		tx.PutJob(&api.Job{ID: "plugin", Namespace: "default", Type: api.JobTypeService, TaskGroups: []*api.TaskGroup{{
			Name: "g", Count: 1, Tasks: []*api.Task{{Name: "t", CSIPluginConfig: &api.CSIPluginConfig{ID: "p", Type: api.CSIPluginTypeController}}},
		}}})
		return nil
	})
	b.refused(force, "a job provides one")
	b.edit(func(tx *state.Txn) error {
		j := *tx.Job("default", "plugin")
		j.Stop = true
		tx.PutJob(&j)
		return nil
	})
	b.refused(&commands.Deregister{Namespace: "default", ID: "v"}, "being deleted")
	b.must(force)
}

// What a server stores is what the entry says, not how its own program words a refusal: servers of two builds would
// differ.
func TestWordsOfRefusalsAreThoseOfTheEntry(t *testing.T) {
	b := newBed(t)
	b.register("v", "x")
	b.must(b.delete("v"))
	b.edit(func(tx *state.Txn) error {
		tx.PutVolume(&api.Volume{VolumeSpec: *spec("w", "x"), Provision: api.VolumeProvision{State: api.VolumeAvailable, ExternalID: "x"}})
		return nil
	})
	b.confirm("v")
	if got := b.volume("v").Provision.LastError; got != kept {
		t.Errorf("a cancelled deletion says %q", got)
	}

	b = newBed(t)
	b.register("v", "x")
	b.edit(func(tx *state.Txn) error {
		v := *tx.Volume("default", "v")
		v.Provision.State, v.Provision.Replaces = api.VolumeCreating, spec("v", "earlier")
		v.Provision.ExternalID, v.Provision.Intent = "", tx.Index()
		tx.PutVolume(&v)
		return nil
	})
	b.must(&commands.EndDelete{Answer: b.answer("v", final)})
	if got := b.volume("v").Provision; got.State != api.VolumeFailed || got.LastError != "refused" {
		t.Errorf("an undo that was refused says %q (%s)", got.LastError, got.State)
	}
}
