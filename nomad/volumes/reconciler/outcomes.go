package reconciler

import (
	"github.com/open-nomad/open-nomad/api"
)

// outcome is a driver's answer to a snapshot intent, for the callers that wait for it.
type outcome struct {
	snapshot *api.Snapshot
	err      error
}

// outcomesMax bounds the answers that are kept for callers, of each kind.
const outcomesMax = 1000

// Refusal is the final error that ended the intent, once; nil when it is not known here.
func (r *Reconciler) Refusal(intent uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.refusals[intent]
	delete(r.refusals, intent)
	return err
}

// Snapshot is the answer to a snapshot's intent.
func (r *Reconciler) Snapshot(intent uint64) (s *api.Snapshot, err error, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, known := r.outcomes[intent]
	return o.snapshot, o.err, known
}

// refused keeps a final answer until the caller that waits for the intent has seen it.
func (r *Reconciler) refused(intent uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.refusals) > outcomesMax {
		clear(r.refusals) // nobody asked for them; the rows say the same
	}
	r.refusals[intent] = err
}

// keep remembers an answer for the caller that waits for it.
func (r *Reconciler) keep(intent uint64, o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.outcomes) > outcomesMax {
		clear(r.outcomes) // their callers are long gone
	}
	r.outcomes[intent] = o
}
