package commands_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
)

// A driver that copies for long does not notice that its source goes.
func TestSourceOfACreationStaysUntilItHasEnded(t *testing.T) {
	b := newBed(t)
	b.register("source", "x")
	b.create("copy", func(s *api.VolumeSpec) { s.CloneID = "x" })
	b.refused(b.delete("source"), `"copy"`, "being created from")
	b.must(b.delete("copy")) // its creation is still under way
	b.refused(b.delete("source"), `"copy"`)
	b.must(&commands.Provisioned{Answer: b.answer("copy"), ExternalID: "y"})
	b.must(b.delete("source"))
	b.refused(&commands.Intend{Spec: func() *api.VolumeSpec { s := spec("late", ""); s.CloneID = "x"; return s }()}, "being deleted")
}

func TestSnapshotStaysWhileAVolumeIsCreatedFromIt(t *testing.T) {
	b := newBed(t)
	b.create("copy", from("snap"))
	remove := func() *commands.IntendSnapshot {
		return &commands.IntendSnapshot{Intent: &api.SnapshotIntent{PluginID: "p", Name: "snap", Delete: true}}
	}
	b.refused(remove(), "snapshot in use", `"copy"`)
	b.must(&commands.Provisioned{Answer: b.answer("copy"), ExternalID: "y"})
	b.must(remove())
	b.refused(&commands.Intend{Spec: func() *api.VolumeSpec { s := spec("late", ""); from("snap")(s); return s }()}, "being deleted")
}
