package reconciler

import (
	"cmp"
	"context"
	"fmt"
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

// lookCreation creates a volume whose external id is not known yet. What is to be deleted, or comes in the place
// of an earlier creation, is created too: only so the id of what was made, if anything was, is learned.
func (r *Reconciler) lookCreation(ctx context.Context, k key, t tries) time.Time {
	return r.doAll(ctx, t, func() []operation {
		v := r.state.Read().Volume(k.a, k.b)
		switch {
		case v == nil || v.Provision.ExternalID != "" || v.Provision.State != api.VolumeCreating && v.Provision.State != api.VolumeDeleting:
			return nil
		case commands.Doomed(v) != nil:
			return []operation{r.deleteOperation(v)}
		}
		return []operation{r.createOperation(v)}
	})
}

func (r *Reconciler) createOperation(v *api.Volume) operation {
	return operation{
		name: fmt.Sprintf("create %s/%s by %d", v.Namespace, v.ID, v.Provision.Intent),
		do: func(ctx context.Context, t try) error {
			asked := r.state.Read()
			out, err := r.create(ctx, v, t)
			if err == nil {
				err = unusable(r.state.Read(), v, out)
			}
			if err == nil && v.Provision.Replaces == nil {
				err = answerable(out.ExternalID, func(tx *state.Txn) error { return commands.Answerable(tx, v.PluginID, out.ExternalID) }, asked, r.state.Read())
			}
			if err != nil {
				return err
			}
			done := &commands.Provisioned{
				Answer: answer(v), ExternalID: out.ExternalID, CapacityBytes: out.CapacityBytes,
				Context: out.Context, Topologies: commands.WithSegments(out.Topologies),
			}
			return r.record(ctx, done)
		},
		failed: func(ctx context.Context, f failure, t try) error { return r.createFailed(ctx, v, f, t) },
	}
}

// unusable rejects a result that is not what the driver was called for: another user's volume, and, where it is to be
// used, one that is smaller or made from something else. A result that is to be undone may have any properties.
func unusable(tx *state.Txn, v *api.Volume, out *api.ControllerCreateResponse) error {
	wanted, what := creation(v), ""
	undoes := v.Provision.State == api.VolumeDeleting || v.Provision.Replaces != nil
	twin := commands.Twin(tx, wanted, out.ExternalID)
	switch o := commands.MadeByAnotherName(tx, wanted, out.ExternalID); {
	case twin != nil:
		what = fmt.Sprintf("%s is volume %q in namespace %q, of plugin %q of the same driver", out.ExternalID, twin.ID, twin.Namespace, twin.PluginID)
	case wanted.CloneID != "" && out.ExternalID == wanted.CloneID:
		what = fmt.Sprintf("%s is what was to be copied", out.ExternalID)
	case o != nil:
		what = fmt.Sprintf("%s is volume %q in namespace %q, which was made by the name %q", out.ExternalID, o.ID, o.Namespace, o.Name)
	case undoes:
		return nil
	case out.OtherSource:
		what = fmt.Sprintf("%s is not made from what was to be copied; `%s` deletes it", out.ExternalID, commandtext.Delete(v.Namespace, v.ID))
	case out.CapacityBytes != 0 && out.CapacityBytes < wanted.RequestedCapacityMin:
		what = fmt.Sprintf("%s has %d bytes, of at least %d; `%s` deletes it", out.ExternalID, out.CapacityBytes, wanted.RequestedCapacityMin, commandtext.Delete(v.Namespace, v.ID))
	default:
		return nil
	}
	return &lostAnswer{fault.New(fault.Internal, "%w: %s", errNonsense, what)}
}

// answerable has a creation repeated that was answered with what was being deleted when the driver was asked, or is now:
// the driver knows it by the same name.
func answerable(id string, deleted func(*state.Txn) error, asked, now *state.Txn) error {
	if err := cmp.Or(deleted(asked), deleted(now)); err != nil {
		return &lostAnswer{fault.New(fault.Unavailable, "the driver returned %s, which has the same name: %w", id, err)}
	}
	return nil
}

// creation is the volume that the driver is asked for: that of an earlier creation while it has to be undone.
func creation(v *api.Volume) *api.Volume {
	if v.Provision.Replaces == nil {
		return v
	}
	earlier := *v
	earlier.VolumeSpec = *v.Provision.Replaces
	return &earlier
}

// creationSecrets are those of the request and of the spec as it is now, and those of an earlier creation.
func creationSecrets(v *api.Volume) []map[string]string {
	return distinct([]map[string]string{v.CallSecrets(), v.Secrets, creation(v).Secrets, v.Provision.FormerSecrets})
}

func (r *Reconciler) create(ctx context.Context, v *api.Volume, t try) (out *api.ControllerCreateResponse, err error) {
	wanted := creation(v)
	_, err = r.withSecrets(named(v), creationSecrets(v), func(secrets map[string]string) (err error) {
		req := commands.CreateRequest(wanted)
		req.Secrets, req.Provider = secrets, v.Provision.Provider
		out, err = call(ctx, r, wire.ControllerCreate, r.making(wanted.PluginID, wanted.Name, pluginview.CreateDelete, t), req)
		return err
	})
	if err != nil {
		return nil, err
	}
	if why := ids.Wrong(out.ExternalID); why != "" {
		return nil, &lostAnswer{fault.New(fault.Internal, "%w: the id of the volume is %.64q: %s", errNonsense, out.ExternalID, why)}
	}
	for _, at := range out.Topologies {
		if why := ids.WrongTopology(at); why != "" {
			return nil, &lostAnswer{fault.New(fault.Internal, "%w: %s", errNonsense, why)}
		}
	}
	return out, nil
}

// making returns how a controller is called to create, grow or delete something. Drivers that start again with each
// call need one that is long enough: the bound doubles each time that it was reached.
func (r *Reconciler) making(plugin, object string, c pluginview.Capability, t try) ask {
	limit := r.limits.MakeTimeout
	for i := 0; i < t.timeouts && limit < r.limits.MakeTimeoutMax; i++ {
		limit *= 2
	}
	return ask{
		plugin: plugin, object: object, needs: c, limit: min(limit, max(r.limits.MakeTimeout, r.limits.MakeTimeoutMax)),
		kind: "make", width: width{r.limits.Making, r.limits.Making, r.limits.MakeSlowAfter},
	}
}

func answer(v *api.Volume) commands.Answer {
	return commands.Answer{Namespace: v.Namespace, ID: v.ID, Intent: v.Provision.Intent}
}

// failure returns the reply that ends or explains an intent. What an earlier attempt may have done stays uncertain,
// also when a former leader made it.
func (r *Reconciler) failure(v *api.Volume, f failure, t try) commands.Answer {
	a := answer(v)
	a.Reason = f.err.Error()
	a.Uncertain = v.Provision.Uncertain || t.uncertain || r.inherited(min(v.Provision.Intent, v.Provision.Operation()))
	return a
}

// createFailed ends a creation that has no point any more, and shows why it is repeated otherwise.
func (r *Reconciler) createFailed(ctx context.Context, v *api.Volume, f failure, t try) error {
	a := r.failure(v, f, t)
	over := f.ends(t)
	switch undoes := v.Provision.State == api.VolumeDeleting || v.Provision.Replaces != nil; {
	case undoes && f.answered() && (over || f.verdict() == fault.VerdictChanged && t.alike >= few):
		return r.undoUnknown(ctx, v, f, a)
	case over && !undoes:
		a.Final = true
		r.refused(requestOf(v), f.err)
		if v.Provision.Replaces != nil {
			a.Reason = commands.Undeleted(v, a.Reason)
		}
	case !t.shows(v.Provision.LastError, f) && a.Uncertain == v.Provision.Uncertain:
		return nil
	}
	return r.record(ctx, &commands.Provisioned{Answer: a})
}

// undoUnknown ends the search for what an earlier call may have created. The driver was called for it by the same name
// and refused, and only a successful reply could prove that it is ours. Some drivers use names as ids: where the
// provider has a volume by that id it stays, and the row with it, because it may have existed before. A volume that
// has the name and does not match the request (ALREADY_EXISTS) did exist before.
func (r *Reconciler) undoUnknown(ctx context.Context, v *api.Volume, f failure, a commands.Answer) error {
	a.Final = true
	if !a.Uncertain {
		return r.record(ctx, &commands.Provisioned{Answer: a})
	}
	made, known, err := creation(v), &api.ControllerVerifyResponse{}, error(nil)
	if f.call == nil || !f.call.Taken() {
		known, err = r.verifyVolume(ctx, made, made.Name, creationSecrets(v))
	}
	switch {
	case err != nil:
		a.Final, a.Reason = false, fmt.Sprintf("%v: it is not verified: %v", f.err, err)
		return r.record(ctx, &commands.Provisioned{Answer: a})
	case known.Exists == api.KnownYes:
		unproven := fault.New(fault.Conflict, "plugin %q has a volume %q, which a creation of %q without a reply, or another client, may have made: "+
			"delete it at the provider if it is not needed, and `%s` forgets it; `%s` retries: %w",
			made.PluginID, made.Name, v.ID, commandtext.Forget(v.Namespace, v.ID), commandtext.Delete(v.Namespace, v.ID), f.err)
		a.Reason = unproven.Error()
		r.refused(requestOf(v), unproven)
		return r.record(ctx, &commands.Provisioned{Answer: a})
	}
	a.Uncertain = false
	r.log.Warn("a creation is cancelled, and its driver has not reported whether it made the volume", "volume", v.ID,
		"namespace", v.Namespace, "plugin", made.PluginID, "name", made.Name, "error", f.err)
	if v.Provision.State == api.VolumeDeleting {
		r.refused(requestOf(v), fault.New(fault.Conflict,
			"volume %q is forgotten, and it is not known whether plugin %q made a volume named %q: look for it at the provider: %w",
			v.ID, made.PluginID, made.Name, f.err))
	}
	return r.record(ctx, &commands.Provisioned{Answer: a})
}

// verifyVolume asks what the provider knows of a volume by an id.
func (r *Reconciler) verifyVolume(ctx context.Context, v *api.Volume, id string, sets []map[string]string) (known *api.ControllerVerifyResponse, err error) {
	_, err = r.withSecrets(named(v), sets, func(secrets map[string]string) (err error) {
		known, err = r.verify(ctx, &api.ControllerVerifyRequest{
			ControllerCall: api.ControllerCall{PluginID: v.PluginID, Provider: v.Provision.Provider}, ExternalID: id,
			Capabilities: v.RequestedCapabilities, MountOptions: v.MountOptions, Secrets: secrets, Context: v.DriverContext(),
		})
		return err
	})
	return known, err
}

// named names the secrets of a volume.
func named(v *api.Volume) string { return fmt.Sprintf("volume %q", v.ID) }

// deleteOperation deletes the volume of a row, or what an earlier creation made of it. The intent is renewed before
// each call, see [commands.ConfirmDelete].
func (r *Reconciler) deleteOperation(row *api.Volume) operation {
	now := *row
	v := &now
	doomed := commands.Doomed(row)
	return operation{
		name: fmt.Sprintf("delete %s/%s by %d", v.Namespace, v.ID, v.Provision.Operation()),
		do: func(ctx context.Context, t try) error {
			if err := r.confirmDelete(ctx, v); err != nil {
				return err
			}
			_, err := r.withSecrets(named(v), r.deletionSecrets(doomed), func(secrets map[string]string) error {
				_, err := call(ctx, r, wire.ControllerDelete, r.making(doomed.PluginID, doomed.RemoteID(), pluginview.CreateDelete, t), &api.ControllerDeleteRequest{
					ControllerCall: api.ControllerCall{PluginID: doomed.PluginID, Fence: v.Provision.Intent, Provider: doomed.Provision.Provider},
					ExternalID:     doomed.RemoteID(), Name: doomed.Name, Secrets: secrets,
				})
				return err
			})
			if err != nil {
				return err
			}
			return r.record(ctx, &commands.EndDelete{Answer: answer(v)})
		},
		failed: func(ctx context.Context, f failure, t try) error { return r.deleteFailed(ctx, v, doomed, f, t) },
	}
}

func (r *Reconciler) deletionSecrets(doomed *api.Volume) []map[string]string {
	return distinct(append([]map[string]string{doomed.CallSecrets()}, secretsOf(r.state.Read(), doomed.PluginID, doomed.RemoteID())...))
}

// confirmDelete looks again, in the log, at who uses the external volume: the intent may be old, and what its
// driver destroys does not come back.
func (r *Reconciler) confirmDelete(ctx context.Context, v *api.Volume) error {
	why := fault.New(fault.Conflict, "the volume was claimed in the meantime")
	if doomed := commands.Doomed(v); doomed != nil {
		why = cmp.Or(ledger.MayDelete(r.state.Read(), doomed), why)
	}
	res, err := r.raft.Propose(ctx, &commands.ConfirmDelete{Namespace: v.Namespace, ID: v.ID, Intent: v.Provision.Intent, Kept: commands.Kept(v, why)})
	if err != nil {
		return replacedOr(err)
	}
	c, _ := res.Value.(commands.Confirmation)
	if c.Intent == 0 {
		r.refused(requestOf(v), fault.New(fault.Conflict, "%s", c.Reason))
		return fmt.Errorf("%w: %s", errReplaced, c.Reason)
	}
	v.Provision.Intent = c.Intent
	return nil
}

// deleteFailed makes the volume available again when its driver does not delete it. A driver that refused, and
// certainly did nothing, is called a few times, because users wait for the result.
func (r *Reconciler) deleteFailed(ctx context.Context, v, doomed *api.Volume, f failure, t try) error {
	a := r.failure(v, f, t)
	switch {
	case f.ends(t), f.verdict() == fault.VerdictRetry && !f.uncertain && t.alike >= few:
		if a.Uncertain && r.unknown(ctx, doomed) {
			return r.record(ctx, &commands.EndDelete{Answer: answer(v)})
		}
		a.Final = true
		r.refused(requestOf(v), f.err)
	case !t.shows(v.Provision.LastError, f) && a.Uncertain == v.Provision.Uncertain:
		return nil
	}
	return r.record(ctx, &commands.EndDelete{Answer: a})
}

// unknown reports that the provider denies to have the volume.
func (r *Reconciler) unknown(ctx context.Context, v *api.Volume) bool {
	known, err := r.verifyVolume(ctx, v, v.RemoteID(), r.deletionSecrets(v))
	return err == nil && known.Exists == api.KnownNo
}
