package commands_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
)

func (b *bed) limit(l api.QuotaStorageResources) {
	b.edit(func(tx *state.Txn) error {
		tx.PutQuota(&api.QuotaSpec{Name: "q", Limits: []*api.QuotaLimit{{Region: "global", RegionLimit: &api.QuotaResources{Storage: &l}}}})
		for _, name := range []string{"default", "other"} {
			tx.PutNamespace(&api.Namespace{Name: name, Quota: "q"})
		}
		return nil
	})
}

func sized(mb int64) func(*api.VolumeSpec) {
	return func(s *api.VolumeSpec) { s.RequestedCapacityMin = mb << 20 }
}

// Namespaces of a quota share its number of volumes and their capacity.
func TestQuotaOfVolumes(t *testing.T) {
	b := newBed(t)
	b.limit(api.QuotaStorageResources{Volumes: 3, VolumesMB: 100})
	b.register("a", "ext-a", sized(40), func(s *api.VolumeSpec) { s.Namespace = "other" })
	b.create("b", sized(50))
	large := spec("c", "")
	sized(20)(large)
	b.refused(&commands.Intend{Spec: large}, `volume "c"`, "quota limit hit: q: volumes_mb exhausted (110 needed > 100 limit)")
	large.ExternalID = "ext-c"
	b.refused(&commands.Register{Specs: []*api.VolumeSpec{large}}, "volumes_mb exhausted (110 needed > 100 limit)")
	b.register("c", "ext-c", sized(10))
	b.refused(&commands.Register{Specs: []*api.VolumeSpec{spec("d", "ext-d")}}, "volumes exhausted (4 needed > 3 limit)")
	b.refused(&commands.BeginExpand{Namespace: "default", ID: "c", CapacityMinBytes: 11 << 20}, "volumes_mb exhausted (101 needed > 100 limit)")
	b.limit(api.QuotaStorageResources{Volumes: -1})
	b.register("c", "ext-c", sized(10)) // what is there may be changed
	b.refused(&commands.Intend{Spec: spec("d", "")}, "volumes exhausted (4 needed > 0 limit)")
}
