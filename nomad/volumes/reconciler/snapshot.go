package reconciler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/ids"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/commandtext"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/nomad/volumes/pluginview"
)

func snapshotKey(i *api.SnapshotIntent) key {
	if i.Delete {
		return key{kindSnapshot, i.PluginID, i.Name, "delete"}
	}
	return key{kindSnapshot, i.PluginID, i.Name, "create"}
}

// lookSnapshot makes or deletes a snapshot.
func (r *Reconciler) lookSnapshot(ctx context.Context, k key, t tries) time.Time {
	return r.doAll(ctx, t, func() []operation {
		i := r.state.Read().SnapshotIntent(k.a, k.b, k.c == "delete")
		switch {
		case i == nil:
			return nil
		case i.Delete:
			return []operation{r.snapshotDeletion(i)}
		}
		return []operation{r.snapshotCreation(i)}
	})
}

func snapshotAnswer(i *api.SnapshotIntent) commands.SnapshotAnswer {
	return commands.SnapshotAnswer{PluginID: i.PluginID, Name: i.Name, Delete: i.Delete, Intent: i.Operation()}
}

// errUnready repeats the call of a snapshot that was cut: drivers report then when it is ready, and why it is not.
var errUnready = errors.New("it is not ready to use yet")

// errAnother ends the following of a snapshot whose driver cuts another one with each call.
var errAnother = errors.New("its driver returned another snapshot")

// wrongSnapshot refuses what is not what the driver was asked for.
func wrongSnapshot(tx *state.Txn, i *api.SnapshotIntent, made *api.Snapshot) error {
	switch source, o := made.ExternalSourceVolumeID, followed(tx, i, made); {
	case i.Unwanted:
		return nil
	case o != nil:
		return fault.New(fault.Conflict, "%w: snapshot %s is being made by the name %q", errNonsense, made.ID, o.Name)
	case source != "" && source != i.ExternalID:
		return fault.New(fault.Conflict, "%w: snapshot %s, which has the name %q, is of volume %s", errNonsense, made.ID, i.Name, source)
	case i.SnapshotID != "" && i.SnapshotID != made.ID:
		return fault.New(fault.Internal, "%w: %w: %s", errNonsense, errAnother, made.ID)
	}
	return nil
}

// followed is the request by another name that the snapshot was cut for; nil when there is none.
func followed(tx *state.Txn, i *api.SnapshotIntent, made *api.Snapshot) *api.SnapshotIntent {
	if o := commands.Following(tx, i.PluginID, made.ID); o != nil && o.Name != i.Name {
		return o
	}
	return nil
}

// snapshotCreation repeats the call until the snapshot is ready to use. An unwanted snapshot is created only to learn
// its id, and then deleted.
func (r *Reconciler) snapshotCreation(i *api.SnapshotIntent) operation {
	return operation{
		name: fmt.Sprintf("snapshot %s by %d", i.Name, i.Operation()),
		do: func(ctx context.Context, t try) error {
			if i.Unwanted && i.SnapshotID != "" { // its id is known: nothing is asked for
				done := snapshotAnswer(i)
				done.Ended, done.SnapshotID = true, i.SnapshotID
				return r.record(ctx, &done)
			}
			if d := commands.Leaving(r.state.Read(), i.PluginID, i.Name); d != nil {
				return fault.New(fault.Unavailable, "snapshot %s, which was cut under the same name, is being deleted: it is made again after that", d.Name)
			}
			asked := r.state.Read()
			made, err := r.snapshot(ctx, i, t)
			if err == nil {
				err = wrongSnapshot(r.state.Read(), i, made)
			}
			if err == nil && !i.Unwanted {
				err = answerable(made.ID, func(tx *state.Txn) error { return commands.SnapshotAnswerable(tx, i, made.ID) }, asked, r.state.Read())
			}
			if err != nil {
				return err
			}
			if !i.Unwanted {
				return r.snapshotMade(ctx, i, made)
			}
			done := snapshotAnswer(i)
			done.Ended = true
			if !cutFor(i, made) || followed(r.state.Read(), i, made) != nil {
				r.log.Warn("a snapshot is kept although its request failed: it may be an earlier one with the same name", "snapshot", i.Name,
					"id", made.ID, "plugin", i.PluginID, "volume", i.VolumeID)
				r.refused(snapshotRequest(i), fault.New(fault.Conflict, "snapshot %s is kept: it has the name %q, and was cut before the request, or for another one; `%s` deletes it",
					made.ID, i.Name, commandtext.DeleteSnapshot(i.PluginID, made.ID)))
				return r.record(ctx, &done)
			}
			done.SnapshotID = made.ID
			if err = r.record(ctx, &done); errors.Is(err, errReplaced) {
				r.undoSnapshot(ctx, i, made)
			}
			return err
		},
		failed: func(ctx context.Context, f failure, t try) error {
			if errors.Is(f.err, errUnready) {
				return nil
			}
			return r.snapshotFailed(ctx, i, f, t)
		},
	}
}

// snapshotMade returns the snapshot to the callers that wait for it, and follows it until it is ready. A snapshot that
// was abandoned during the call is deleted.
func (r *Reconciler) snapshotMade(ctx context.Context, i *api.SnapshotIntent, made *api.Snapshot) error {
	done := snapshotAnswer(i)
	switch done.Made = true; {
	case made.IsReady:
		done.Ended = true
	case i.SnapshotID == made.ID:
		r.keep(i, outcome{snapshot: made})() // the state has it
		return errUnready
	default:
		done.SnapshotID = made.ID
	}
	err := r.deliver(ctx, i, outcome{snapshot: made}, &done)
	if errors.Is(err, errReplaced) {
		r.undoSnapshot(ctx, i, made)
	}
	if err == nil && !made.IsReady {
		return errUnready
	}
	return err
}

// undoSnapshot deletes a snapshot that was cut after its intent had been forgotten: nothing else records it. A
// snapshot whose id was reported before is left, as it was reported to the operator.
func (r *Reconciler) undoSnapshot(ctx context.Context, i *api.SnapshotIntent, made *api.Snapshot) {
	if i.SnapshotID != "" || !cutFor(i, made) {
		return
	}
	deletion := *i
	deletion.Name, deletion.CutAs, deletion.Began = made.ID, i.Name, 0
	deletion.LastError, deletion.Uncertain = "", false
	deletion.Secrets = overlaid(r.snapshotSecrets(i)[0], i.Secrets)
	for ctx.Err() == nil && r.state.Read().SnapshotIntent(i.PluginID, i.Name, false) == nil {
		err := r.record(ctx, &commands.GiveUpSnapshot{Made: &deletion})
		if err == nil {
			r.log.Warn("a snapshot was cut after it had been forgotten: it is deleted", "snapshot", i.Name, "id", made.ID, "plugin", i.PluginID, "volume", i.VolumeID)
		}
		if err == nil || errors.Is(err, errReplaced) {
			return
		}
		r.log.Warn("a snapshot was cut after it had been forgotten, which is not recorded yet", "snapshot", i.Name, "id", made.ID, "plugin", i.PluginID, "error", err)
		select {
		case <-time.After(r.limits.RetryMin):
		case <-ctx.Done():
		}
	}
}

// cutFor reports whether the snapshot was cut for the intent: drivers return an existing one by that name, and some of
// them one of another volume.
func cutFor(i *api.SnapshotIntent, made *api.Snapshot) bool {
	return i.Since != 0 && (made.ExternalSourceVolumeID == "" || made.ExternalSourceVolumeID == i.ExternalID) && made.CreateTime >= i.Since/int64(time.Second)
}

func (r *Reconciler) snapshot(ctx context.Context, i *api.SnapshotIntent, t try) (*api.Snapshot, error) {
	var out *api.ControllerSnapshotResponse
	_, err := r.withSecrets(external(i.PluginID, i.ExternalID), r.snapshotSecrets(i), func(secrets map[string]string) (err error) {
		out, err = call(ctx, r, wire.ControllerSnapshot, r.making(i.PluginID, i.Name, pluginview.CreateSnapshots, t), &api.ControllerSnapshotRequest{
			ControllerCall: api.ControllerCall{PluginID: i.PluginID, Fence: i.Fence(), Provider: i.Provider},
			ExternalID:     i.ExternalID, Name: i.Name, Parameters: i.Parameters, Secrets: secrets,
		})
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case out.Snapshot == nil:
		return nil, &lostAnswer{fault.New(fault.Internal, "%w: it has no snapshot", errNonsense)}
	}
	if why := ids.Wrong(out.Snapshot.ID); why != "" {
		return nil, &lostAnswer{fault.New(fault.Internal, "%w: the id of the snapshot is %.64q: %s", errNonsense, out.Snapshot.ID, why)}
	}
	return out.Snapshot, nil
}

// snapshotSecrets lays those of the request over those of the volume as it is now.
func (r *Reconciler) snapshotSecrets(i *api.SnapshotIntent) []map[string]string {
	sets := secretsOf(r.state.Read(), i.PluginID, i.ExternalID)
	for n, s := range sets {
		sets[n] = overlaid(s, i.Secrets)
	}
	return distinct(sets)
}

// snapshotFailed ends a creation that has no point any more. What an earlier try may have made is then still
// looked for, to be deleted.
func (r *Reconciler) snapshotFailed(ctx context.Context, i *api.SnapshotIntent, f failure, t try) error {
	a := snapshotAnswer(i)
	a.Reason, a.Uncertain = f.err.Error(), i.Uncertain || t.uncertain || r.inherited(i.Operation())
	over := f.ends(t)
	switch {
	case i.SnapshotID != "" && (f.gaveUp() || errors.Is(f.err, errAnother)): // it was cut: who asked for it knows it, and deletes it
		r.log.Warn("a snapshot was cut and does not get ready", "snapshot", i.Name, "id", i.SnapshotID, "plugin", i.PluginID, "volume", i.VolumeID, "error", f.err)
		a.Ended = true
		return r.deliver(ctx, i, outcome{err: fmt.Errorf("snapshot %s was cut, and its driver does not make it ready; `%s` deletes it: %w",
			i.SnapshotID, commandtext.Snapshot(i), f.err)}, &a)
	case i.SnapshotID != "":
		if !t.shows(i.LastError, f) {
			return nil
		}
	case over && !i.Unwanted:
		a.Ended, a.Unwanted = !a.Uncertain, a.Uncertain
		return r.deliver(ctx, i, outcome{err: f.err}, &a)
	case over && t.alike >= few && (f.answered() || f.credentials() && !r.wanted(i)):
		r.log.Warn("a snapshot is forgotten, and its driver has not reported whether it made it", "snapshot", i.Name,
			"plugin", i.PluginID, "volume", i.VolumeID, "error", f.err)
		r.refused(snapshotRequest(i), fault.New(fault.Conflict, "snapshot %q is forgotten, and it is not known whether plugin %q made it: look for it at the provider: %w",
			i.Name, i.PluginID, f.err))
		a.Ended = true
	case !t.shows(i.LastError, f) && a.Uncertain == i.Uncertain:
		return nil
	}
	return r.record(ctx, &a)
}

// wanted reports whether the source of the snapshot is still known: its secrets may be corrected.
func (r *Reconciler) wanted(i *api.SnapshotIntent) bool {
	return anySpec(r.state.Read(), i.PluginID, i.ExternalID)
}

func anySpec(tx *state.Txn, plugin, external string) bool {
	for range tx.VolumesByExternal(plugin, external) {
		return true
	}
	return false
}

func (r *Reconciler) snapshotDeletion(i *api.SnapshotIntent) operation {
	return operation{
		name: fmt.Sprintf("delete snapshot %s by %d", i.Name, i.Operation()),
		do: func(ctx context.Context, t try) error {
			// A call that makes it may be under way.
			if made := commands.Following(r.state.Read(), i.PluginID, i.Name); made != nil {
				return fault.New(fault.Unavailable, "its driver is being asked whether it is ready: it is deleted after that")
			}
			if err := ledger.NotCopied(r.state.Read(), i.PluginID, "snapshot", i.Name, func(s *api.VolumeSpec) string { return s.SnapshotID }); err != nil {
				return fault.New(fault.Unavailable, "%w", err)
			}
			_, err := r.withSecrets(fmt.Sprintf("snapshot %q of plugin %q", i.Name, i.PluginID), r.snapshotSecrets(i), func(secrets map[string]string) error {
				_, err := call(ctx, r, wire.ControllerSnapshotDelete, r.making(i.PluginID, i.Name, pluginview.CreateSnapshots, t), &api.ControllerSnapshotDeleteRequest{
					ControllerCall: api.ControllerCall{PluginID: i.PluginID, Fence: i.Fence(), Provider: i.Provider}, ID: i.Name, Secrets: secrets,
				})
				return err
			})
			if err != nil {
				return err
			}
			done := snapshotAnswer(i)
			done.Ended = true
			return r.deliver(ctx, i, outcome{}, &done)
		},
		failed: func(ctx context.Context, f failure, t try) error {
			a := snapshotAnswer(i)
			a.Reason, a.Uncertain = f.err.Error(), i.Uncertain || t.uncertain
			switch {
			case i.Unwanted && !i.Forgotten: // no caller waits; it is deleted however long that takes
				if !t.news {
					return nil
				}
			case f.ends(t), f.verdict() == fault.VerdictRetry && !f.uncertain && t.alike >= few:
				a.Ended = true
				return r.deliver(ctx, i, outcome{err: f.err}, &a)
			case !t.news:
				return nil
			}
			return r.record(ctx, &a)
		},
	}
}

func overlaid(base, over map[string]string) map[string]string {
	if len(over) == 0 {
		return base
	}
	all := map[string]string{}
	maps.Copy(all, base)
	maps.Copy(all, over)
	return all
}
