package quota

import (
	"iter"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// VolumeView is what limits of volumes read of the state.
type VolumeView interface {
	View
	Volume(ns, id string) *api.Volume
	Volumes(ns string) iter.Seq[*api.Volume]
}

// Stored is a number of volumes and their capacity.
type Stored struct{ Volumes, MB int64 }

// capacity is the larger of what a volume has and what was asked for, in MiB.
func capacity(v *api.Volume) int64 {
	return MB(max(v.Provision.CapacityBytes, v.RequestedCapacityMin))
}

// MB is a size in MiB, rounded up.
func MB(bytes int64) int64 {
	const mb = 1 << 20
	return bytes/mb + min(1, bytes%mb)
}

// VolumesOf counts the volumes in the namespaces of the quota.
func VolumesOf(v VolumeView, q *api.QuotaSpec) (sum Stored) {
	for n := range v.Namespaces() {
		if n.Quota != q.Name {
			continue
		}
		for vol := range v.Volumes(n.Name) {
			sum.Volumes++
			sum.MB += capacity(vol)
		}
	}
	return sum
}

// HostVolumeView is what the limit of host volumes reads of the state.
type HostVolumeView interface {
	View
	HostVolume(ns, id string) *api.HostVolume
	HostVolumes(ns string) iter.Seq[*api.HostVolume]
}

// requestedOf is the largest size that was asked for, in MiB.
func requestedOf(v *api.HostVolume) int64 {
	return MB(max(v.RequestedCapacityMaxBytes, v.RequestedCapacityMinBytes))
}

// HostVolumesOf is the size of the host volumes in the namespaces of the quota, in MiB. A volume counts with the size that
// its plugin reported, before that with the one that was asked for. Volumes without a size do not count.
func HostVolumesOf(v HostVolumeView, q *api.QuotaSpec) (sum int64) {
	for n := range v.Namespaces() {
		if n.Quota != q.Name {
			continue
		}
		for vol := range v.HostVolumes(n.Name) {
			if mb := MB(vol.CapacityBytes); mb > 0 {
				sum += mb
			} else {
				sum += requestedOf(vol)
			}
		}
	}
	return sum
}

// HostVolumeAllowed refuses a host volume that is new, or for which a larger size is asked, when the quota of its namespace
// does not permit it. What a plugin made is never refused.
func HostVolumeAllowed(v HostVolumeView, next *api.HostVolume) error {
	q := quotaOf(v, next.Namespace)
	l := Limits(q)
	if l == nil || l.Storage == nil || l.Storage.HostVolumesMB == 0 {
		return nil
	}
	limit, grows, old := most(&l.Storage.HostVolumesMB), requestedOf(next), v.HostVolume(next.Namespace, next.ID)
	if old != nil {
		grows -= max(MB(old.CapacityBytes), requestedOf(old))
	} else if grows == 0 {
		return fault.New(fault.Conflict, "host volume %q: %s%s limits host_volumes, and the volume has no size: set capacity_min or capacity_max", next.Name, LimitHit, q.Name)
	}
	if sum := HostVolumesOf(v, q) + grows; grows > 0 && sum > limit {
		return fault.New(fault.Conflict, "host volume %q: %s%s: host_volumes exhausted (%d MiB needed > %d MiB limit): delete host volumes of its namespaces or raise the limit",
			next.Name, LimitHit, q.Name, sum, limit)
	}
	return nil
}

// VolumeAllowed refuses a volume that is new or becomes larger when the quota of its namespace does not permit it.
func VolumeAllowed(v VolumeView, next *api.Volume) error {
	q := quotaOf(v, next.Namespace)
	l := Limits(q)
	if l == nil || l.Storage == nil {
		return nil
	}
	grows := Stored{1, capacity(next)}
	if old := v.Volume(next.Namespace, next.ID); old != nil {
		grows = Stored{0, grows.MB - capacity(old)}
	}
	sum := VolumesOf(v, q)
	for _, d := range []struct {
		what        string
		grows, used int64
		limit       int
	}{
		{"volumes", grows.Volumes, sum.Volumes, l.Storage.Volumes}, {"volumes_mb", grows.MB, sum.MB, l.Storage.VolumesMB},
	} {
		if limit := most(&d.limit); d.grows > 0 && d.used+d.grows > limit {
			return fault.New(fault.Conflict, "volume %q: %s%s: %s exhausted (%d needed > %d limit): delete volumes of its namespaces or raise the limit",
				next.ID, LimitHit, q.Name, d.what, d.used+d.grows, limit)
		}
	}
	return nil
}
