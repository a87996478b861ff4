package state

import (
	"iter"

	"github.com/open-nomad/open-nomad/api"
)

// HostVolume returns the host volume, or nil.
func (t *Txn) HostVolume(ns, id string) *api.HostVolume { return hostVolumes.get(t, rowKey(ns, id)) }

// HostVolumes lists the host volumes of a namespace by id.
func (t *Txn) HostVolumes(ns string) iter.Seq[*api.HostVolume] {
	return inNamespace(hostVolumes, t, ns)
}

// HostVolumesByNode lists the host volumes of a node.
func (t *Txn) HostVolumesByNode(node string) iter.Seq[*api.HostVolume] {
	return hostVolumes.list(t, "node", node)
}

// PutHostVolume stores the host volume.
func (t *Txn) PutHostVolume(v *api.HostVolume) { hostVolumes.put(t, v) }

// DeleteHostVolume deletes the host volume and the claims on it, and reports whether there was one.
func (t *Txn) DeleteHostVolume(ns, id string) bool {
	for c := range hostVolumeClaims.list(t, "volume", rowKey(ns, id)) {
		hostVolumeClaims.remove(t, c)
	}
	return hostVolumes.remove(t, t.HostVolume(ns, id))
}

// HostVolumeClaim returns the claim on a sticky host volume, or nil.
func (t *Txn) HostVolumeClaim(ns, id string) *api.HostVolumeClaim {
	return hostVolumeClaims.get(t, rowKey(ns, id))
}

// HostVolumeClaimsOfJob lists the claims of a job on sticky host volumes.
func (t *Txn) HostVolumeClaimsOfJob(ns, job string) iter.Seq[*api.HostVolumeClaim] {
	return hostVolumeClaims.list(t, "job", rowKey(ns, job))
}

// PutHostVolumeClaim stores the claim on a sticky host volume.
func (t *Txn) PutHostVolumeClaim(c *api.HostVolumeClaim) { hostVolumeClaims.put(t, c) }

// DeleteHostVolumeClaim deletes the claim and reports whether there was one.
func (t *Txn) DeleteHostVolumeClaim(ns, id string) bool {
	return hostVolumeClaims.remove(t, t.HostVolumeClaim(ns, id))
}
