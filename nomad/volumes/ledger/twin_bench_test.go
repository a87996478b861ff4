package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// BenchmarkReadBesideManyNodes prints how long it takes to collect what is known of a volume while so many claims wait to
// use it on 2,000 nodes, none of which has a mount of before.
func BenchmarkReadBesideManyNodes(b *testing.B) {
	for _, many := range []int{1, 1000} {
		b.Run(fmt.Sprint("claims=", many), func(b *testing.B) {
			s, err := state.New()
			if err != nil {
				b.Fatal(err)
			}
			tx := s.Write(1, time.Unix(1_700_000_000, 0))
			tx.PutAgreedVersion(fsm.Version)
			for i := range 2000 {
				id := fmt.Sprintf("n%04d", i)
				tx.PutNode(&api.Node{ID: id, CSINodePlugins: map[string]*api.CSIInfo{"p": {PluginID: "p", NodeInfo: &api.CSINodeInfo{ID: "machine-" + id}}}})
				if i < many {
					tx.PutClaim(&api.VolumeClaim{
						Namespace: "default", VolumeID: "v", AllocID: "a-" + id, NodeID: id, PluginID: "p", ExternalID: "ext-v", Attach: true,
						State: api.ClaimTaken, AccessMode: api.AccessMultiNodeMultiWriter,
					})
				}
			}
			tx.Commit()
			read := s.Read()
			for b.Loop() {
				if book := ledger.Read(read, "p", "ext-v"); len(book.Claims) != many {
					b.Fatal(len(book.Claims))
				}
			}
		})
	}
}
