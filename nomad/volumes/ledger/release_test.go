package ledger_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// An attachment keeps the weakest proof by which claims on its node ended, in whatever order they end.
func TestAttachmentKeepsTheWeakestProof(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ first, second, want string }{
		{ledger.ProofReleased, ledger.ProofFenced, ledger.ProofFenced},
		{ledger.ProofFenced, ledger.ProofReleased, ledger.ProofFenced},
		{ledger.ProofReleased, ledger.ProofAssumed, ledger.ProofAssumed},
		{ledger.ProofAssumed, ledger.ProofReleased, ledger.ProofAssumed},
		{ledger.ProofFenced, ledger.ProofAssumed, ledger.ProofAssumed},
		{ledger.ProofAssumed, ledger.ProofFenced, ledger.ProofAssumed},
	} {
		t.Run(c.first+" "+c.second, func(t *testing.T) {
			t.Parallel()
			b := newBook(t)
			b.must(func(tx *state.Txn) error {
				for _, alloc := range []string{"a1", "a2"} {
					tx.PutClaim(&api.VolumeClaim{
						Namespace: "default", VolumeID: "v", AllocID: alloc, NodeID: "n1", PluginID: "p", ExternalID: "x",
						AccessMode: api.AccessMultiNodeMultiWriter, AttachmentMode: api.AttachmentFileSystem, State: api.ClaimReleasing, Attach: true,
					})
				}
				tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "x", NodeID: "n1", State: api.AttachmentPublished, AccessMode: api.AccessMultiNodeMultiWriter})
				return nil
			})
			for i, proof := range []string{c.first, c.second} {
				h := ledger.Hold{Namespace: "default", VolumeID: "v", AllocID: []string{"a1", "a2"}[i], NodeID: "n1"}
				b.must(func(tx *state.Txn) error { return ledger.Evict(tx, h, proof, ledger.ByPolicy) })
			}
			if got := b.attachment().Proof; got != c.want {
				t.Errorf("proof is %q, want %q", got, c.want)
			}
		})
	}
}
