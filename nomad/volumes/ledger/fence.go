package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// controllers is what is known of the controllers of a plugin. While no node reports the plugin it is treated as one
// that attaches.
func controllers(tx *state.Txn, plugin string) claim.Controllers {
	c := claim.ControllersOf(tx.NodesByPlugin(plugin), plugin)
	for range tx.NodesByPlugin(plugin) {
		return c
	}
	c.Attach = true
	return c
}

// Attaches reports whether a plugin attaches volumes according to its nodes, or may.
func Attaches(tx *state.Txn, plugin string) bool { return controllers(tx, plugin).Attach }

// guard decides once what keeps the claim's node from writing when it is lost: the detach by its storage, the end of a
// lease, or both. No later change of the plugin or a spec alters it. A volume whose second user could do harm always
// has one of them: while it is not known whether its storage detaches it has a lease too, which costs nothing when it
// was not needed. Where the attach turns out to be needless, see [PublishNeedless].
func guard(tx *state.Txn, v *api.Volume, c *api.VolumeClaim) error {
	by := controllers(tx, v.PluginID)
	c.Attach = by.Attach
	for range tx.AttachmentsOf(c.PluginID, c.ExternalID) { // its detach has an effect, whatever the plugin reports now
		c.Attach = true
		break
	}
	specs := slices.Collect(tx.VolumesByExternal(v.PluginID, v.RemoteID()))
	if !claim.Contested(c, specs) {
		return nil
	}
	at := tx.Attachment(c.PluginID, c.ExternalID, c.NodeID)
	if why := claim.Unfenced(v, specs, c, by, at); why != "" {
		return fault.New(fault.Conflict, "%s", why)
	}
	if !by.Detach || claim.NeverAttached(at) || v.Fence == api.FenceLease || v.Fence == api.FenceBoth {
		lease(c, v)
	}
	return nil
}

func lease(c *api.VolumeClaim, v *api.Volume) {
	c.Lease = cmp.Or(v.Lease, LeaseDefault)
	c.WriteBack = cmp.Or(v.WriteBack, api.WriteBackOf(c.Lease, v.Provision.SlowestWriteBack))
}

// Measured takes note of how long a node took to write a volume back and to unmount it. Later claims have as much
// time for that, and more.
func Measured(tx *state.Txn, namespace, id string, took time.Duration) {
	v := tx.Volume(namespace, id)
	if v == nil || took <= v.Provision.SlowestWriteBack {
		return
	}
	next := *v
	next.Provision.SlowestWriteBack = took
	tx.PutVolume(&next)
}

// FenceError refuses a spec with a fence that its plugin is known not to have.
func FenceError(tx *state.Txn, s *api.VolumeSpec) error {
	switch s.Fence {
	case "", api.FenceLease:
		return nil
	case api.FenceStorage, api.FenceBoth:
		if !controllers(tx, s.PluginID).Attach {
			return fault.New(fault.Invalid, "volume %q: fence = %q needs a plugin that attaches volumes, and %q does not: use %q", s.ID, s.Fence, s.PluginID, api.FenceLease)
		}
		return nil
	}
	return fault.New(fault.Invalid, "volume %q: fence %q is unknown: use one of %s, %s, %s", s.ID, s.Fence, api.FenceStorage, api.FenceLease, api.FenceBoth)
}
