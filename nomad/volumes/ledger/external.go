package ledger

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
	"github.com/open-nomad/open-nomad/nomad/volumes/commandtext"
)

// External is everything that the state holds of one external volume, under whatever spec. Operations, claims and
// attachments exclude each other here, never by the row of one spec.
type External struct {
	PluginID, ID string
	Specs        []*api.Volume
	// Undoing are volumes that take the place of an earlier creation that made it, which is being undone.
	Undoing     []*api.Volume
	Claims      []*api.VolumeClaim
	Attachments []*api.VolumeAttachment
	// WrittenOff is what an operator has ended and the driver has not. It blocks no other use.
	WrittenOff []*api.VolumeAttachment
	// Snapshots are those of it that are being made.
	Snapshots []*api.SnapshotIntent
}

// ExternalOf gathers the external volume of a spec.
func ExternalOf(tx *state.Txn, v *api.Volume) External { return Gather(tx, v.PluginID, v.RemoteID()) }

// Gather gathers an external volume.
func Gather(tx *state.Txn, plugin, external string) External {
	e := External{
		PluginID: plugin, ID: external,
		Claims:      slices.Collect(tx.ClaimsByExternal(plugin, external)),
		Attachments: slices.Collect(tx.AttachmentsOf(plugin, external)),
		WrittenOff:  slices.Collect(tx.WrittenOffOf(plugin, external)),
	}
	for v := range tx.VolumesByExternal(plugin, external) {
		if claim.Undoes(v, plugin, external) {
			e.Undoing = append(e.Undoing, v)
		} else {
			e.Specs = append(e.Specs, v)
		}
	}
	for i := range tx.SnapshotIntents() {
		if !i.Delete && i.PluginID == plugin && i.ExternalID == external {
			e.Snapshots = append(e.Snapshots, i)
		}
	}
	return e
}

// Deleting refuses everything that would use an external volume that is being deleted, whichever spec of it is.
func (e External) Deleting() error {
	for _, v := range slices.Concat(e.Specs, e.Undoing) {
		if reason := claim.BeingDeleted(v, e.PluginID, e.ID); reason != "" {
			return fault.New(fault.Conflict, "%s", reason)
		}
	}
	return nil
}

// MayDelete refuses while another user holds the external volume of the spec: a claim, an attachment,
// another spec, a snapshot that is being made. It is asked when a deletion begins and again in the entry before
// each call.
func MayDelete(tx *state.Txn, v *api.Volume) error {
	if why := Held(tx, v.PluginID, v.RemoteID()); why != "" {
		return fault.New(fault.Unavailable, "volume %q is not deleted now: %s", v.ID, why)
	}
	if err := ExternalOf(tx, v).onlyOf(tx, v); err != nil {
		return err
	}
	return NotCopied(tx, v.PluginID, "volume", v.RemoteID(), func(s *api.VolumeSpec) string { return s.CloneID })
}

// NotCopied refuses while a volume is being created from a volume or snapshot of the plugin: some drivers copy for
// long, and do not notice that the source goes. source is what a creation copies.
func NotCopied(tx *state.Txn, plugin, what, id string, source func(*api.VolumeSpec) string) error {
	for v := range tx.VolumesByPlugin(plugin) {
		p := v.Provision
		if p.ExternalID != "" || p.State != api.VolumeCreating && p.State != api.VolumeDeleting {
			continue
		}
		if source(&v.VolumeSpec) == id || p.Replaces != nil && source(p.Replaces) == id {
			return fault.New(fault.Conflict, "%s in use: volume %q in namespace %q is being created from %q; `%s` cancels it", what, v.ID, v.Namespace, id,
				commandtext.Delete(v.Namespace, v.ID))
		}
	}
	return nil
}

// onlyOf refuses while the external volume is held by another user than the spec.
func (e External) onlyOf(tx *state.Txn, v *api.Volume) error {
	if len(e.Claims) > 0 {
		return fault.New(fault.Conflict, "volume in use: %q is held by %s", v.ID, Holders(tx, v.Namespace, e.Claims))
	}
	for _, a := range e.Attachments {
		return fault.New(fault.Conflict, "volume in use: %q is attached to node %s (%s); %s", v.ID, Short(a.NodeID), a.State, Detached(v, a))
	}
	for _, i := range e.Snapshots {
		return fault.New(fault.Conflict, "volume in use: snapshot %q of %q is being made; `%s` cancels it, with -force at once", i.Name, v.ID, commandtext.Snapshot(i))
	}
	if o := e.other(v, func(*api.Volume) bool { return true }); o != nil {
		return fault.New(fault.Conflict, "volume %q in namespace %q names the same external volume as %q: `%s` forgets it", o.ID, o.Namespace, v.ID, commandtext.Deregister(o.Namespace, o.ID))
	}
	return nil
}

// MayExpand refuses while the external volume is being deleted, or expanded through another spec.
func MayExpand(tx *state.Txn, v *api.Volume) error {
	e := ExternalOf(tx, v)
	if err := e.Deleting(); err != nil {
		return err
	}
	if o := e.other(v, func(o *api.Volume) bool { return o.Provision.State == api.VolumeExpanding }); o != nil {
		return fault.New(fault.Conflict, "volume %q in namespace %q, which names the same external volume as %q, is being expanded: retry when that has ended; `%s` forgets it",
			o.ID, o.Namespace, v.ID, commandtext.Forget(o.Namespace, o.ID))
	}
	return nil
}

// other returns another spec of the external volume.
func (e External) other(v *api.Volume, want func(*api.Volume) bool) *api.Volume {
	i := slices.IndexFunc(e.Specs, func(o *api.Volume) bool { return !sameSpec(o, v) && want(o) })
	if i < 0 {
		return nil
	}
	return e.Specs[i]
}

func sameSpec(a, b *api.Volume) bool { return a.ID == b.ID && a.Namespace == b.Namespace }

// Mirror copies what the driver reported about one spec of the external volume to the others.
func Mirror(tx *state.Txn, v *api.Volume) {
	for _, o := range ExternalOf(tx, v).Specs {
		if sameSpec(o, v) {
			continue
		}
		next := *o
		inherit(&next, v)
		tx.PutVolume(&next)
	}
}

// Inherit copies what the driver reported about the external volume's existing specs to a new one.
func Inherit(tx *state.Txn, v *api.Volume) {
	for _, o := range ExternalOf(tx, v).Specs {
		if !sameSpec(o, v) {
			inherit(v, o)
		}
	}
}

// Grown gives a volume that was just created what the state knows of its growth by other specs: that is newer than the
// driver's reply to a creation, and a volume never shrinks.
func Grown(tx *state.Txn, v *api.Volume) {
	p := &v.Provision
	for _, o := range ExternalOf(tx, v).Specs {
		if !sameSpec(o, v) {
			p.CapacityBytes = max(p.CapacityBytes, o.Provision.CapacityBytes)
			p.NodeExpansion, p.NotGrown = slices.Clone(o.Provision.NodeExpansion), o.Provision.NotGrown
		}
	}
}

func inherit(to, from *api.Volume) {
	p := &to.Provision
	p.CapacityBytes, p.NodeExpansion, p.NotGrown = from.Provision.CapacityBytes, slices.Clone(from.Provision.NodeExpansion), from.Provision.NotGrown
	if from.Provision.Created || len(from.Provision.Context) > 0 {
		p.Created, p.Context = from.Provision.Created, from.Provision.Context
	}
	if len(from.Provision.Topologies) > 0 {
		p.Topologies = from.Provision.Topologies
	}
}

// Detached describes how an attachment that blocks another use is ended.
func Detached(v *api.Volume, a *api.VolumeAttachment) string {
	return fmt.Sprintf("`%s` asserts that it is not", commandtext.DetachByForce(v.Namespace, v.ID, a.NodeID))
}

// Runs reports whether the claim's allocation is not over.
func Runs(tx *state.Txn, c *api.VolumeClaim) bool {
	a := tx.Alloc(c.AllocID)
	return a != nil && !a.Terminal()
}

// Stopping reports whether tasks of the claim's allocation, which is being stopped, still run on a node that is heard.
func Stopping(tx *state.Txn, c *api.VolumeClaim) bool {
	a := tx.Alloc(c.AllocID)
	return a != nil && a.ServerTerminal() && a.ClientStatus == api.AllocClientStatusRunning && !Away(tx.Node(c.NodeID))
}

// Next describes what a claim waits for.
func Next(tx *state.Txn, c *api.VolumeClaim) string { return claim.Next(c, holding(tx, c)) }

func holding(tx *state.Txn, c *api.VolumeClaim) claim.Holding {
	return claim.Holding{Alloc: tx.Alloc(c.AllocID), Node: tx.Node(c.NodeID)}
}

// Remedy is the command that ends a claim.
func Remedy(tx *state.Txn, c *api.VolumeClaim) string { return endedBy(tx, c, c) }

// Brief is [Remedy] with the short ids of the allocation and of a node that is known.
func Brief(tx *state.Txn, c *api.VolumeClaim) string {
	named := *c
	named.AllocID, named.NodeID = Short(c.AllocID), ShortNode(tx, c.NodeID)
	return endedBy(tx, c, &named)
}

// Short is the part of an id that refusals show.
func Short(id string) string { return id[:min(len(id), 8)] }

// ShortNode is the part of a node's id by which commands find it: all of it when the node is not known.
func ShortNode(tx *state.Txn, id string) string {
	if tx.Node(id) == nil {
		return id
	}
	return Short(id)
}

// endedBy is the command that ends a claim, with the ids of named.
func endedBy(tx *state.Txn, c, named *api.VolumeClaim) string {
	switch {
	case Stopping(tx, c):
		return commandtext.Kill(named.Namespace, named.AllocID)
	case !Runs(tx, c) && tx.Volume(c.Namespace, c.VolumeID) != nil && SpecOf(tx, c) == nil: // the id means another one
		return DetachByForce(tx, named, named.NodeID)
	}
	return commandtext.Claim(named, Runs(tx, c), !unmounts(tx, c))
}

// unmounts reports whether the node of a claim can be asked to end it: it is heard, and its
// plugin is healthy. A claim that is unmounted waits for its driver.
func unmounts(tx *state.Txn, c *api.VolumeClaim) bool {
	n := tx.Node(c.NodeID)
	if c.State == api.ClaimUnmounted {
		a := tx.Attachment(c.PluginID, c.ExternalID, c.NodeID)
		return a == nil || a.LastError == ""
	}
	p := (*api.CSIInfo)(nil)
	if n != nil {
		p = n.CSINodePlugins[c.PluginID]
	}
	return !Away(n) && p != nil && p.Healthy
}

// Holders names, for readers of a namespace, the first of claims, by its allocation and all its uses, with the command that
// ends it, and the number of other allocations. "nomad volume status" lists them all. Allocations of other namespaces are
// not named.
func Holders(tx *state.Txn, ns string, claims []*api.VolumeClaim) string {
	if i := slices.IndexFunc(claims, func(c *api.VolumeClaim) bool { return c.Namespace == ns }); i > 0 {
		claims = append([]*api.VolumeClaim{claims[i]}, slices.Delete(slices.Clone(claims), i, i+1)...)
	}
	first, others, uses := claims[0], map[string]bool{}, []string{}
	for _, c := range claims {
		switch {
		case c.AllocID != first.AllocID || c.NodeID != first.NodeID:
			others[c.AllocID] = true
		case c.Use != "" && c.VolumeID == first.VolumeID:
			uses = append(uses, c.Use)
		}
	}
	as := ""
	if len(uses) > 1 {
		as = " (as " + strings.Join(uses, ", ") + ")"
	}
	away := ""
	if n := tx.Node(first.NodeID); n != nil && Away(n) {
		away = " (" + n.Status + ")"
	}
	s := fmt.Sprintf("allocation %s%s on node %s%s: `%s` ends it", Short(first.AllocID), as, Short(first.NodeID), away, Brief(tx, first))
	if first.Namespace != ns {
		s = fmt.Sprintf("an allocation of another namespace on node %s%s", Short(first.NodeID), away)
	}
	if n := len(others); n > 0 {
		s += fmt.Sprintf(", and %d more", n)
	}
	return s
}
