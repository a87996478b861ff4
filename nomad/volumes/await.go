package volumes

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commandtext"
)

// await waits until the intent is completed. While its calls fail it waits for Patience, then it returns the last
// error: the leader keeps trying.
func (s *Service) await(ctx context.Context, ns, id string, intent uint64, during api.VolumeState) (*api.Volume, error) {
	keys := []state.Key{state.VolumeKey(ns, id)}
	var v *api.Volume
	open := func() bool {
		return v != nil && v.Provision.State == during && v.Provision.Operation() == intent
	}
	err := state.Until(ctx, s.state, keys, func(tx *state.Txn) bool {
		v = tx.Volume(ns, id)
		return !open() || v.Provision.LastError != ""
	})
	if err == nil && open() {
		patient, cancel := context.WithTimeout(ctx, s.patience)
		defer cancel()
		_ = state.Until(patient, s.state, keys, func(tx *state.Txn) bool {
			v = tx.Volume(ns, id)
			return !open()
		})
		err = ctx.Err()
	}
	switch {
	case err != nil:
		return nil, fault.New(fault.Timeout, "volume %q is still %s: %w", id, during, err)
	case v != nil && v.Provision.State == during && !open():
		return nil, fault.New(fault.Conflict, "volume %q is still %s, for another request that has replaced this one", id, during)
	case open():
		return nil, fault.New(fault.Unavailable, "volume %q is still %s, which is retried until the driver replies: %s%s", id, during, v.Provision.LastError, waysOut(v))
	}
	return v, nil
}

// waysOut names the commands that end a creation which does not end by itself.
func waysOut(v *api.Volume) string {
	switch v.Provision.State {
	case api.VolumeDeleting:
		return "; " + commandtext.Unanswered(v)
	case api.VolumeExpanding:
		return fmt.Sprintf("; `%s` forgets the volume, which may have grown or not", commandtext.Forget(v.Namespace, v.ID))
	}
	return fmt.Sprintf("; \"nomad volume create\" with other fields replaces it, \"%s\" cancels it", commandtext.Delete(v.Namespace, v.ID))
}

// refusal is the final error that ended an intent: the driver's own while this server knows it, else the row's reason.
func (s *Service) refusal(ns, id string, intent uint64, reason string) error {
	if err := s.outcomes.Refusal(ns, id, intent); err != nil {
		return err
	}
	return fault.New(fault.Conflict, "%s", reason)
}
