package reconciler

import (
	"context"
	"errors"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// errGaveWay ends calls that others about the same volume have waited for.
var errGaveWay = errors.New("ended for the sake of a detach or attach that has waited for it")

// giveWay ends a call about an external volume, which may last for long, when a detach has waited for it for a while, or
// an attach for as long as one may last itself. One that has failed before is repeated after it: it would end each call
// that is long. done must be called after it.
func (r *Reconciler) giveWay(ctx context.Context, plugin, external string) (_ context.Context, done func()) {
	ctx, cut := context.WithCancelCause(ctx)
	waits := func(tx *state.Txn, detach bool) bool {
		for a := range tx.AttachmentsOf(plugin, external) {
			wanted := a.State == api.AttachmentUnpublishing || !detach && a.State == api.AttachmentPublishing && !ledger.AttachHeld(tx, a)
			if wanted && a.LastError == "" {
				return true
			}
		}
		return false
	}
	watch := func(detach bool, patience time.Duration) {
		for {
			err := state.Until(ctx, r.state, []state.Key{state.AttachmentsKey(plugin, external)}, func(tx *state.Txn) bool { return waits(tx, detach) })
			if err != nil {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(patience):
			}
			if waits(r.state.Read(), detach) {
				cut(errGaveWay)
			}
		}
	}
	go watch(true, beside)
	go watch(false, r.limits.AttachTimeout)
	return ctx, func() { cut(nil) }
}
