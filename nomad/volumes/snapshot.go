package volumes

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Kind implements [fsm.Command].
func (*IntendSnapshot) Kind() fsm.Kind { return fsm.KindSnapshotIntent }

// Kind implements [fsm.Command].
func (*SnapshotAnswer) Kind() fsm.Kind { return fsm.KindSnapshotAnswer }

// Apply writes the intent, or joins the same one.
func (c *IntendSnapshot) Apply(tx *state.Txn) (any, error) {
	old := tx.SnapshotIntent(c.Intent.PluginID, c.Intent.Name, c.Intent.Delete)
	switch {
	case old == nil:
		tx.PutSnapshotIntent(c.Intent)
		return tx.Index(), nil
	case old.ExternalID != c.Intent.ExternalID:
		return nil, fault.New(fault.Conflict, "snapshot %q of volume %q is being made under the same name", old.Name, old.VolumeID)
	}
	return old.CreateIndex, nil
}

// Apply ends the intent, or notes why it is tried again.
func (c *SnapshotAnswer) Apply(tx *state.Txn) (any, error) {
	old := tx.SnapshotIntent(c.PluginID, c.Name, c.Delete)
	if old == nil || old.CreateIndex != c.Intent {
		return nil, fault.New(fault.Conflict, "snapshot %q: intent %d has ended", c.Name, c.Intent)
	}
	if c.Ended {
		tx.DeleteSnapshotIntent(c.PluginID, c.Name, c.Delete)
		return nil, nil
	}
	next := *old
	next.LastError = c.Reason
	tx.PutSnapshotIntent(&next)
	return nil, nil
}

// outcome is a driver's answer to a snapshot intent, for the callers that wait for it.
type outcome struct {
	snapshot *api.Snapshot
	err      error
	// first is when the driver answered first; a snapshot may get ready after that.
	first time.Time
}

// outcomesMax bounds the answers that are kept for callers.
const outcomesMax = 1000

// intend writes an intent and waits for the driver's answer. While its calls fail it waits for Patience;
// the leader goes on trying.
func (s *Service) intend(ctx context.Context, i *api.SnapshotIntent) (*api.Snapshot, error) {
	res, err := s.raft.Propose(ctx, &IntendSnapshot{Intent: i})
	if err != nil {
		return nil, err
	}
	intent, _ := res.Value.(uint64)
	keys := []state.Key{state.SnapshotKey(i.PluginID, i.Name, i.Delete)}
	var now *api.SnapshotIntent
	open := func(tx *state.Txn) bool {
		now = tx.SnapshotIntent(i.PluginID, i.Name, i.Delete)
		return now != nil && now.CreateIndex == intent
	}
	err = state.Until(ctx, s.state, keys, func(tx *state.Txn) bool { return !open(tx) || now.LastError != "" })
	if err == nil && open(s.state.Read()) {
		patient, cancel := context.WithTimeout(ctx, s.limits.Patience)
		defer cancel()
		_ = state.Until(patient, s.state, keys, func(tx *state.Txn) bool { return !open(tx) })
	}
	pending := open(s.state.Read())
	s.mu.Lock()
	defer s.mu.Unlock()
	done, known := s.outcomes[intent]
	switch {
	case known:
	case pending:
		return nil, fault.New(fault.Unavailable, "the driver has not answered yet, it is asked again until it does: %s", now.LastError)
	default:
		return nil, fault.New(fault.Unavailable, "the driver answered another server: list the snapshots, or ask again with the same name")
	}
	return done.snapshot, done.err
}

func snapshotKey(i *api.SnapshotIntent) key {
	if i.Delete {
		return key{kindSnapshot, i.PluginID, i.Name, "delete"}
	}
	return key{kindSnapshot, i.PluginID, i.Name, "create"}
}

// lookSnapshot makes or deletes a snapshot.
func (s *Service) lookSnapshot(ctx context.Context, k key, t tries) time.Time {
	return s.doAll(ctx, t, func() []job {
		i := s.state.Read().SnapshotIntent(k.a, k.b, k.c == "delete")
		if i == nil {
			return nil
		}
		return []job{s.snapshotJob(i)}
	})
}

func (s *Service) snapshotJob(i *api.SnapshotIntent) job {
	answer := SnapshotAnswer{PluginID: i.PluginID, Name: i.Name, Delete: i.Delete, Intent: i.CreateIndex}
	return job{
		name: fmt.Sprintf("snapshot %s by %d", i.Name, i.CreateIndex),
		do: func(ctx context.Context) error {
			made, err := s.callSnapshot(ctx, i)
			if err != nil && !final(err) {
				return err
			}
			first := s.keep(i.CreateIndex, outcome{made, err, s.now()})
			if err == nil && made != nil && !made.IsReady && s.now().Before(first.Add(s.limits.Patience)) {
				return fault.New(fault.Unavailable, "snapshot %q is not ready yet", made.ID)
			}
			done := answer
			done.Ended = true
			return s.record(ctx, &done)
		},
		failed: func(ctx context.Context, err error, _ try) error {
			if i.LastError == err.Error() {
				return nil
			}
			again := answer
			again.Reason = err.Error()
			return s.record(ctx, &again)
		},
	}
}

func (s *Service) callSnapshot(ctx context.Context, i *api.SnapshotIntent) (*api.Snapshot, error) {
	at := api.ControllerCall{PluginID: i.PluginID, Fence: i.CreateIndex}
	if i.Delete {
		_, err := made(ctx, s, i.PluginID, wire.ControllerSnapshotDelete, &api.ControllerSnapshotDeleteRequest{
			ControllerCall: at, ID: i.Name, Secrets: i.Secrets,
		})
		return nil, err
	}
	out, err := made(ctx, s, i.PluginID, wire.ControllerSnapshot, &api.ControllerSnapshotRequest{
		ControllerCall: at, ExternalID: i.ExternalID, Name: i.Name, Parameters: i.Parameters, Secrets: i.Secrets,
	})
	switch {
	case err != nil:
		return nil, err
	case out.Snapshot == nil || out.Snapshot.ID == "":
		return nil, fault.New(fault.Invalid, "the driver answered no snapshot id")
	}
	return out.Snapshot, nil
}

// keep remembers an answer and says when the first one to the same intent came.
func (s *Service) keep(intent uint64, o outcome) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, known := s.outcomes[intent]; known {
		o.first = old.first
	}
	if len(s.outcomes) > outcomesMax {
		clear(s.outcomes) // their callers are long gone
	}
	s.outcomes[intent] = o
	return o.first
}
