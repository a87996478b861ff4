package commands_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// An operator may take the volume of an allocation that runs where it is heard: then its job is evaluated, which stops it.
func TestWhoLosesItsVolumeByForceIsEvaluated(t *testing.T) {
	t.Parallel()
	evict := func(proof string) fsm.Command {
		return &commands.Evict{Namespace: "default", VolumeID: "v", NodeID: "n1", AllocIDs: []string{"a"}, Proof: proof, By: ledger.ByOperator}
	}
	writeOff := &commands.WriteOff{PluginID: "p", ExternalID: "x", NodeID: "n1"}
	for name, c := range map[string]struct {
		command fsm.Command
		status  string
		client  string
		evals   int
	}{
		"taken away":  {evict(ledger.ProofAssumed), api.NodeStatusReady, api.AllocClientStatusRunning, 1},
		"written off": {writeOff, api.NodeStatusReady, api.AllocClientStatusRunning, 1},
		"given back":  {evict(ledger.ProofReleased), api.NodeStatusReady, api.AllocClientStatusRunning, 0},
		"over":        {evict(ledger.ProofAssumed), api.NodeStatusReady, api.AllocClientStatusComplete, 0},
		"not heard":   {evict(ledger.ProofFenced), api.NodeStatusDisconnected, api.AllocClientStatusUnknown, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.edit(func(tx *state.Txn) error {
				n := *tx.Node("n1")
				n.Status = c.status
				tx.PutNode(&n)
				j := &api.Job{ID: "j", Namespace: "default", Type: api.JobTypeService, Priority: 7}
				tx.PutJob(j)
				tx.PutAlloc(&api.Allocation{
					ID: "a", Namespace: "default", JobID: "j", Job: j, NodeID: "n1", DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: c.client,
				})
				tx.PutClaim(&api.VolumeClaim{
					Namespace: "default", VolumeID: "v", AllocID: "a", NodeID: "n1", PluginID: "p", ExternalID: "x", State: api.ClaimReady,
					AccessMode: api.AccessSingleNodeWriter, Mode: api.ClaimWrite,
				})
				return nil
			})
			b.must(c.command)
			evals := 0
			for e := range b.state.Read().EvalsByJob("default", "j") {
				if evals++; e.Status != api.EvalStatusPending || e.Priority != 7 || e.Type != api.JobTypeService {
					t.Errorf("evaluation %+v", e)
				}
			}
			if evals != c.evals {
				t.Errorf("%d evaluations", evals)
			}
		})
	}
}
