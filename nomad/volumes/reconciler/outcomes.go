package reconciler

import (
	"context"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
)

// outcome is a driver's reply to a snapshot intent, for the callers that wait for it.
type outcome struct {
	snapshot *api.Snapshot
	err      error
	// recorded is closed when the state has the reply; one that it refused is forgotten then.
	recorded <-chan struct{}
}

// request identifies what callers wait for. An index alone does not: those of different objects may be equal after a
// restore.
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

// outcomesMax bounds the replies that are kept for callers, of each kind.
const outcomesMax = 1000

// Refusal is the final error that ended the operation of a volume, once; nil when it is not known here.
func (r *Reconciler) Refusal(namespace, id string, operation uint64) error {
	return r.refusal(volumeRequest(namespace, id, operation))
}

// Kept returns why an abandoned snapshot was not deleted, once; nil when that is not known here.
func (r *Reconciler) Kept(i *api.SnapshotIntent) error { return r.refusal(snapshotRequest(i)) }

func (r *Reconciler) refusal(of request) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.refusals[of]
	delete(r.refusals, of)
	return err
}

// Snapshot returns the result of a snapshot's intent. It waits for a result that is being recorded: the intent may
// have been abandoned in that moment.
func (r *Reconciler) Snapshot(ctx context.Context, i *api.SnapshotIntent) (s *api.Snapshot, err error, known bool) {
	if o, known := r.outcome(i); known {
		select {
		case <-o.recorded:
		case <-ctx.Done():
			return nil, nil, false
		}
	}
	o, known := r.outcome(i)
	return o.snapshot, o.err, known
}

func (r *Reconciler) outcome(i *api.SnapshotIntent) (o outcome, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, known = r.outcomes[snapshotRequest(i)]
	return o, known
}

// refused keeps a final error until the caller that waits for it has read it.
func (r *Reconciler) refused(of request, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.refusals) > outcomesMax {
		clear(r.refusals) // no caller read them; the rows contain the same
	}
	r.refusals[of] = err
}

// deliver records the result of a snapshot's intent, and keeps it for the callers who wait for that.
func (r *Reconciler) deliver(ctx context.Context, i *api.SnapshotIntent, o outcome, answer *commands.SnapshotAnswer) error {
	recorded := r.keep(i, o)
	defer recorded()
	err := r.record(ctx, answer)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.outcomes, snapshotRequest(i))
	}
	return err
}

// keep stores a result, which callers get once it is recorded.
func (r *Reconciler) keep(i *api.SnapshotIntent, o outcome) (recorded func()) {
	wait := make(chan struct{})
	o.recorded = wait
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.outcomes) > outcomesMax {
		clear(r.outcomes) // their callers have stopped waiting long ago
	}
	r.outcomes[snapshotRequest(i)] = o
	return func() { close(wait) }
}
