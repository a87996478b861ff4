package claim

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// Ask is one volume that an allocation asks for.
type Ask struct {
	VolumeID string
	Request
	// MountOptions replace those of the volume.
	MountOptions *api.MountOptions
}

// Source is the id of the volume that a request names for an allocation: with per_alloc it ends in
// the allocation's index, as its name does: "data[3]" for "job.group[3]".
func Source(req *api.VolumeRequest, allocName string) string {
	if !req.PerAlloc {
		return req.Source
	}
	if i := strings.LastIndexByte(allocName, '['); i >= 0 {
		return req.Source + allocName[i:]
	}
	return req.Source
}

// Asks lists the CSI volumes that an allocation's group asks for, by volume id. A volume that is
// named twice is asked for once, for writing if one of the two writes.
func Asks(a *api.Allocation) []Ask {
	g := a.Group()
	if g == nil || len(g.Volumes) == 0 {
		return nil
	}
	var asks []Ask
	for _, alias := range slices.Sorted(maps.Keys(g.Volumes)) {
		req := g.Volumes[alias]
		if req == nil || req.Type != api.VolumeTypeCSI {
			continue
		}
		ask := askOf(a, req)
		i := slices.IndexFunc(asks, func(other Ask) bool { return other.VolumeID == ask.VolumeID })
		if i < 0 {
			asks = append(asks, ask)
			continue
		}
		asks[i].ReadOnly = asks[i].ReadOnly && ask.ReadOnly
	}
	slices.SortFunc(asks, func(x, y Ask) int { return cmp.Compare(x.VolumeID, y.VolumeID) })
	return asks
}

func askOf(a *api.Allocation, req *api.VolumeRequest) Ask {
	return Ask{
		VolumeID: Source(req, a.Name),
		Request: Request{
			AllocID: a.ID, JobID: a.JobID, Namespace: a.Namespace, TaskGroup: a.TaskGroup, NodeID: a.NodeID,
			ReadOnly:       req.ReadOnly,
			AccessMode:     api.AccessMode(req.AccessMode),
			AttachmentMode: api.AttachmentMode(req.AttachmentMode),
		},
		MountOptions: req.MountOptions,
	}
}

// VolumeIDs lists the ids of the CSI volumes that an allocation's group asks for.
func VolumeIDs(a *api.Allocation) []string {
	var ids []string
	for _, ask := range Asks(a) {
		ids = append(ids, ask.VolumeID)
	}
	return ids
}
