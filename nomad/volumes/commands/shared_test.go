package commands_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// A user of a volume that excluded nobody is given up as soon as its node is lost. Who is excluded by it, by a
// specification of later, waits for it all the same.
func TestSharedUserThatWasGivenUpIsInTheWayOfALaterExclusiveOne(t *testing.T) {
	several := func(s *api.VolumeSpec) { s.RequestedCapabilities[0].AccessMode = api.AccessMultiNodeMultiWriter }
	for name, later := range map[string]func(*bed){
		"another spec":     func(b *bed) { b.register("w", "x") },
		"a new capability": func(b *bed) { b.register("w", "x", several); b.register("w", "x") },
		"a creation": func(b *bed) {
			b.create("w")
			b.must(&commands.Provisioned{Answer: b.answer("w"), ExternalID: "x"})
		},
	} {
		for _, by := range []string{ledger.ByPolicy, ledger.ByOperator} {
			b := newBed(t)
			b.edit(func(tx *state.Txn) error {
				n := *tx.Node("n1")
				n.CSIControllerPlugins = nil
				tx.PutNode(&n)
				for _, id := range []string{"n1", "n2"} {
					n := *tx.Node(id)
					n.CSINodePlugins = map[string]*api.CSIInfo{"p": {PluginID: "p", Healthy: true, NodeInfo: &api.CSINodeInfo{ID: id}}}
					tx.PutNode(&n)
				}
				return nil
			})
			b.register("v", "x", several)
			b.mustPlace("a1", "n1", "v")
			b.edit(func(tx *state.Txn) error {
				return ledger.Evict(tx, ledger.Hold{Namespace: "default", VolumeID: "v", AllocID: "a1"}, ledger.ProofAssumed, by)
			})
			if c := b.state.Read().Claim("default", "v", "a1", ""); c != nil {
				t.Fatalf("%s: the claim is still %s", name, c.State)
			}
			later(b)
			b.mustPlace("a2", "n2", "w")
			next := func() api.ClaimState { return b.state.Read().Claim("default", "w", "a2", "").State }
			if by == ledger.ByOperator {
				if s := next(); s != api.ClaimReady {
					t.Errorf("%s: an operator's word counts, and the claim is %s", name, s)
				}
				continue
			}
			if s := next(); s != api.ClaimWaiting {
				t.Errorf("%s: the claim is %s, and the lost node may write", name, s)
			}
			c := b.state.Read().Claim("default", "v", "a1", "")
			if c == nil || c.State != api.ClaimReleasing || c.Lease != 0 || c.Attach {
				t.Fatalf("%s: what may be mounted is claimed as %+v", name, c)
			}
			b.must(&commands.Report{Namespace: "default", VolumeID: "v", AllocID: "a1", NodeID: "n1"})
			if s := next(); s != api.ClaimReady {
				t.Errorf("%s: the claim is %s when the node has unmounted it", name, s)
			}
		}
	}
}
