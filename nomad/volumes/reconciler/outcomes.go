package reconciler

import (
	"github.com/open-nomad/open-nomad/api"
)

// outcome is a driver's answer to a snapshot intent, for the callers that wait for it.
type outcome struct {
	snapshot *api.Snapshot
	err      error
}

// request is what callers wait for the answer to. Indexes alone name none: those of different objects may be equal after
// a restore.
type request struct {
	object    key
	operation uint64
}

func volumeRequest(namespace, id string, operation uint64) request {
	return request{key{kindCreate, namespace, id, ""}, operation}
}

func requestOf(v *api.Volume) request {
	return volumeRequest(v.Namespace, v.ID, v.Provision.Operation())
}

func snapshotRequest(i *api.SnapshotIntent) request { return request{snapshotKey(i), i.Operation()} }

// outcomesMax bounds the answers that are kept for callers, of each kind.
const outcomesMax = 1000

// Refusal is the final error that ended the operation of a volume, once; nil when it is not known here.
func (r *Reconciler) Refusal(namespace, id string, operation uint64) error {
	return r.refusal(volumeRequest(namespace, id, operation))
}

// Kept is why a snapshot that was given up was not deleted, once; nil when that is not known here.
func (r *Reconciler) Kept(i *api.SnapshotIntent) error { return r.refusal(snapshotRequest(i)) }

func (r *Reconciler) refusal(of request) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.refusals[of]
	delete(r.refusals, of)
	return err
}

// Snapshot is the answer to a snapshot's intent.
func (r *Reconciler) Snapshot(i *api.SnapshotIntent) (s *api.Snapshot, err error, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, known := r.outcomes[snapshotRequest(i)]
	return o.snapshot, o.err, known
}

// refused keeps a final answer until the caller that waits for it has seen it.
func (r *Reconciler) refused(of request, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.refusals) > outcomesMax {
		clear(r.refusals) // nobody asked for them; the rows say the same
	}
	r.refusals[of] = err
}

// drop forgets an answer that has come too late for the caller.
func (r *Reconciler) drop(i *api.SnapshotIntent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.outcomes, snapshotRequest(i))
}

// keep remembers an answer for the caller that waits for it.
func (r *Reconciler) keep(i *api.SnapshotIntent, o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.outcomes) > outcomesMax {
		clear(r.outcomes) // their callers are long gone
	}
	r.outcomes[snapshotRequest(i)] = o
}
