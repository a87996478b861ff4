package ledger_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// A report tells of many allocations, and a plan stops many: no claim may end the entry that they are in.
func TestAClaimInAnyStateLetsItsAllocationEnd(t *testing.T) {
	for _, s := range []api.ClaimState{api.ClaimTaken, api.ClaimWaiting, api.ClaimReady, api.ClaimReleasing, api.ClaimUnmounted, "", "of a version to come"} {
		for _, volume := range []string{"v", "gone"} {
			b := newBook(t)
			b.must(func(tx *state.Txn) error {
				tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: volume, AllocID: "a1", NodeID: "n1", PluginID: "p", ExternalID: "x", State: s})
				return nil
			})
			ended := taker("a1", "n1")
			ended.ClientStatus = api.AllocClientStatusFailed
			b.must(func(tx *state.Txn) error { return ledger.AllocChanged(tx, ended) })
		}
	}
}
