package feasible

import (
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/hostvolumes/hostview"
)

const missingHostVolumes = "missing compatible host volumes"

// resourceHostClaim is a claim on a sticky host volume that an evaluation may wait for.
const resourceHostClaim = "host-volume-claim:"

// HostClaimResource names a claim on a sticky host volume as something to wait for.
func HostClaimResource(ns, id string) string { return resourceHostClaim + ns + ":" + id }

// OfAllocation reports whether which volume is used depends on the allocation.
func OfAllocation(r *api.VolumeRequest) bool {
	return r.Type == api.VolumeTypeCSI || r.PerAlloc || r.Sticky
}

// hostWant is the use of a host volume that depends on the allocation.
type hostWant struct {
	request *api.VolumeRequest
	source  string
	// claim is on the volume that the allocations before this one had; nil allows any of the name.
	claim *api.HostVolumeClaim
}

func (vs *Volumes) hostWants(g *api.TaskGroup, a *api.Allocation) (wants []hostWant) {
	for _, r := range g.Volumes {
		if r == nil || r.Type != api.VolumeTypeHost || !OfAllocation(r) {
			continue
		}
		w := hostWant{request: r, source: r.SourceFor(a.Name)}
		if r.Sticky {
			w.claim = hostview.Claim(vs.view, a, w.source)
		}
		wants = append(wants, w)
	}
	slices.SortFunc(wants, func(x, y hostWant) int {
		if x.source < y.source {
			return -1
		}
		return 1
	})
	return wants
}

// hostRefusal is why the allocation's host volumes are not on the node, or "".
func (a *VolumeAsk) hostRefusal(n *api.Node) string {
	for _, w := range a.host {
		info := n.HostVolumes[w.source]
		if c := w.claim; c != nil && (info == nil || info.ID != c.VolumeID) {
			a.all.missing[HostClaimResource(c.Namespace, c.ID)] = true
			return fmt.Sprintf("%s: %s keeps sticky volume %s, which is elsewhere", missingHostVolumes, c.AllocName, c.VolumeID)
		}
		if !info.Offers(a.all.ns, w.request) {
			return missingHostVolumes
		}
	}
	return ""
}
