package state

import (
	"iter"

	"github.com/open-nomad/open-nomad/api"
)

// VolumeKey is one volume's row.
func VolumeKey(ns, id string) Key { return Key{TableVolumes, "id", rowKey(ns, id)} }

// VolumeClaimsKey is all claims of a volume.
func VolumeClaimsKey(ns, id string) Key { return Key{TableClaims, "volume", rowKey(ns, id)} }

// AttachmentsKey is all attachments of an external volume.
func AttachmentsKey(plugin, external string) Key {
	return Key{TableAttachments, "volume", rowKey(plugin, external)}
}

// SnapshotKey is one snapshot that is to be made, or deleted.
func SnapshotKey(plugin, name string, del bool) Key {
	return Key{TableSnapshots, "id", rowKey(plugin, name, intentKind(del))}
}

func intentKind(del bool) string {
	if del {
		return "delete"
	}
	return "create"
}

// SnapshotIntent returns what is to be done with a snapshot, or nil.
func (t *Txn) SnapshotIntent(plugin, name string, del bool) *api.SnapshotIntent {
	return snapshots.get(t, rowKey(plugin, name, intentKind(del)))
}

// SnapshotIntents lists what is to be done with snapshots.
func (t *Txn) SnapshotIntents() iter.Seq[*api.SnapshotIntent] { return snapshots.all(t) }

// PutSnapshotIntent stores what is to be done with a snapshot.
func (t *Txn) PutSnapshotIntent(i *api.SnapshotIntent) {
	snapshots.put(t, i)
}

// DeleteSnapshotIntent deletes an intent and reports whether there was one.
func (t *Txn) DeleteSnapshotIntent(plugin, name string, del bool) bool {
	return snapshots.remove(t, t.SnapshotIntent(plugin, name, del))
}

// Volume returns the volume, or nil.
func (t *Txn) Volume(ns, id string) *api.Volume { return volumes.get(t, rowKey(ns, id)) }

// Volumes lists the volumes of a namespace by id.
func (t *Txn) Volumes(ns string) iter.Seq[*api.Volume] { return inNamespace(volumes, t, ns) }

// VolumesByPlugin lists the volumes of a plugin.
func (t *Txn) VolumesByPlugin(plugin string) iter.Seq[*api.Volume] {
	return volumes.list(t, "plugin", plugin)
}

// VolumesByExternal lists the specs that name an external volume, and those in whose place an earlier creation made
// it, which is to be undone. A volume that is being created names none before the driver has said its id.
func (t *Txn) VolumesByExternal(plugin, external string) iter.Seq[*api.Volume] {
	return volumes.list(t, "external", rowKey(plugin, external))
}

func externalOfVolume(v *api.Volume) []string {
	var keys []string
	if r := v.Provision.Replaces; r != nil && r.ExternalID != "" {
		keys = append(keys, rowKey(r.PluginID, r.ExternalID))
	}
	if s := v.Provision.State; v.Provision.ExternalID == "" && (s == api.VolumeCreating || s == api.VolumeDeleting || s == api.VolumeFailed) {
		return keys
	}
	return append(keys, rowKey(v.PluginID, v.RemoteID()))
}

// PutVolume stores the volume.
func (t *Txn) PutVolume(v *api.Volume) { volumes.put(t, v) }

// DeleteVolume deletes the volume and reports whether there was one.
func (t *Txn) DeleteVolume(ns, id string) bool { return volumes.remove(t, t.Volume(ns, id)) }

// Claim returns an allocation's claim on a volume, or nil. use is that of the claim: empty where the
// allocation has only one.
func (t *Txn) Claim(ns, volume, alloc, use string) *api.VolumeClaim {
	return claims.get(t, rowKey(ns, volume, alloc, use))
}

// Claims lists all claims.
func (t *Txn) Claims() iter.Seq[*api.VolumeClaim] { return claims.all(t) }

// ClaimsByVolume lists the claims on a volume.
func (t *Txn) ClaimsByVolume(ns, volume string) iter.Seq[*api.VolumeClaim] {
	return claims.list(t, "volume", rowKey(ns, volume))
}

// ClaimsByExternal lists the claims on all volumes that name the same external volume.
func (t *Txn) ClaimsByExternal(plugin, external string) iter.Seq[*api.VolumeClaim] {
	return claims.list(t, "external", rowKey(plugin, external))
}

// ClaimsByAlloc lists the claims of an allocation.
func (t *Txn) ClaimsByAlloc(alloc string) iter.Seq[*api.VolumeClaim] {
	return claims.list(t, "alloc", alloc)
}

// ClaimsByNode lists the claims on a node.
func (t *Txn) ClaimsByNode(node string) iter.Seq[*api.VolumeClaim] {
	return claims.list(t, "node", node)
}

// PutClaim stores the claim.
func (t *Txn) PutClaim(c *api.VolumeClaim) {
	claims.put(t, c)
}

// DeleteClaim deletes the claim and reports whether there was one.
func (t *Txn) DeleteClaim(ns, volume, alloc, use string) bool {
	return claims.remove(t, t.Claim(ns, volume, alloc, use))
}

// Attachment returns the attachment of an external volume to a node, or nil. What was written off is none.
func (t *Txn) Attachment(plugin, external, node string) *api.VolumeAttachment {
	if a := attachments.get(t, rowKey(plugin, external, node)); a != nil && !writtenOff(a) {
		return a
	}
	return nil
}

// Attachments lists all attachments.
func (t *Txn) Attachments() iter.Seq[*api.VolumeAttachment] {
	return filter(attachments.all(t), counts)
}

// AttachmentsOf lists the attachments of an external volume.
func (t *Txn) AttachmentsOf(plugin, external string) iter.Seq[*api.VolumeAttachment] {
	return filter(attachments.list(t, "volume", rowKey(plugin, external)), counts)
}

// AttachmentsByNode lists the attachments to a node.
func (t *Txn) AttachmentsByNode(node string) iter.Seq[*api.VolumeAttachment] {
	return filter(attachments.list(t, "node", node), counts)
}

// WrittenOff lists what operators have written off and drivers have not detached yet.
func (t *Txn) WrittenOff() iter.Seq[*api.VolumeAttachment] {
	return filter(attachments.all(t), writtenOff)
}

// WrittenOffOf lists that of an external volume.
func (t *Txn) WrittenOffOf(plugin, external string) iter.Seq[*api.VolumeAttachment] {
	return filter(attachments.list(t, "volume", rowKey(plugin, external)), writtenOff)
}

// WrittenOffTo returns that of an external volume and a node, or nil.
func (t *Txn) WrittenOffTo(plugin, external, node string) *api.VolumeAttachment {
	if a := attachments.get(t, rowKey(plugin, external, node)); a != nil && writtenOff(a) {
		return a
	}
	return nil
}

func writtenOff(a *api.VolumeAttachment) bool { return a.State == api.AttachmentWrittenOff }

func counts(a *api.VolumeAttachment) bool { return !writtenOff(a) }

// PutAttachment stores the attachment. One in the place of what was written off is new, and the other way about.
func (t *Txn) PutAttachment(a *api.VolumeAttachment) {
	if old := attachments.get(t, rowKey(a.PluginID, a.ExternalID, a.NodeID)); old != nil && writtenOff(old) != writtenOff(a) {
		attachments.remove(t, old)
	}
	attachments.put(t, a)
}

// DeleteAttachment deletes the attachment, also one that was written off, and reports whether there was one.
func (t *Txn) DeleteAttachment(plugin, external, node string) bool {
	return attachments.remove(t, attachments.get(t, rowKey(plugin, external, node)))
}
