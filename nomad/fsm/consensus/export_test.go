package consensus

import "github.com/open-nomad/open-nomad/nomad/state"

// Reconcile exports [Raft.reconcile] for tests.
func (r *Raft) Reconcile(older *state.Store) { r.reconcile(older) }
