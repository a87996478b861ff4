package feasible

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// VolumeView is what placement reads about CSI volumes.
type VolumeView interface {
	Volume(ns, id string) *api.Volume
	ClaimsByExternal(plugin, external string) iter.Seq[*api.VolumeClaim]
	ClaimsByNode(node string) iter.Seq[*api.VolumeClaim]
	AttachmentsByNode(node string) iter.Seq[*api.VolumeAttachment]
	NodesByPlugin(plugin string) iter.Seq[*api.Node]
}

// Resources outside of nodes that a blocked evaluation may wait for.
const (
	resourceVolume = "csi-volume:"
	resourcePlugin = "csi-plugin:"
)

// VolumeResource names a volume as something to wait for.
func VolumeResource(ns, id string) string { return resourceVolume + ns + ":" + id }

// PluginResource names a CSI plugin as something to wait for.
func PluginResource(id string) string { return resourcePlugin + id }

// Volumes checks CSI volumes for one evaluation. It knows the claims that the plan takes and those of
// allocations that the plan stops.
type Volumes struct {
	view     VolumeView
	ns       string
	stopping map[string]bool
	missing  map[string]bool
	books    map[external]*book
	// onNode are the external volumes on each node: attached, claimed, or planned.
	onNode      map[string][]external
	controllers map[string]string
}

type external struct{ plugin, id string }

// NewVolumes starts the checks of an evaluation; stopping is shared with the caller, who adds to it.
func NewVolumes(view VolumeView, ns string, stopping map[string]bool) *Volumes {
	return &Volumes{view: view, ns: ns, stopping: stopping}
}

// begin makes the books; most evaluations ask for no volume.
func (vs *Volumes) begin() {
	if vs.books == nil {
		vs.missing, vs.controllers = map[string]bool{}, map[string]string{}
		vs.books, vs.onNode = map[external]*book{}, map[string][]external{}
	}
}

// Missing lists what refused placements and could allow them without any change of nodes.
func (vs *Volumes) Missing() []string { return slices.Sorted(maps.Keys(vs.missing)) }

// VolumeAsk is the volumes that one allocation asks for.
type VolumeAsk struct {
	all        *Volumes
	wants      []want
	impossible string
}

type want struct {
	request claim.Request
	volume  *api.Volume
}

func (w want) external() external { return external{w.volume.PluginID, w.volume.RemoteID()} }

// Ask looks up the volumes of an allocation of the group that is to be placed. A volume that is named
// twice is asked for once, for writing if one of the two writes.
func (vs *Volumes) Ask(g *api.TaskGroup, a *api.Allocation) *VolumeAsk {
	vs.begin()
	ask := &VolumeAsk{all: vs}
	var absent []string
	for _, alias := range slices.Sorted(maps.Keys(g.Volumes)) {
		req := g.Volumes[alias]
		if req.Type != api.VolumeTypeCSI {
			continue
		}
		id := claim.Source(req, a.Name)
		v := vs.view.Volume(vs.ns, id)
		if v == nil {
			absent = append(absent, id)
			vs.missing[VolumeResource(vs.ns, id)] = true
			continue
		}
		ask.want(v, claim.Request{
			AllocID: a.ID, JobID: a.JobID, Namespace: a.Namespace, TaskGroup: a.TaskGroup, ReadOnly: req.ReadOnly,
			AccessMode: api.AccessMode(req.AccessMode), AttachmentMode: api.AttachmentMode(req.AttachmentMode),
		})
	}
	if len(absent) > 0 {
		ask.impossible = "CSI volume(s) not found: " + strings.Join(absent, ", ")
		return ask
	}
	for _, w := range ask.wants {
		if ask.impossible = vs.unusable(w); ask.impossible != "" {
			return ask
		}
	}
	return ask
}

func (a *VolumeAsk) want(v *api.Volume, r claim.Request) {
	for i, w := range a.wants {
		if w.volume == v {
			a.wants[i].request.ReadOnly = w.request.ReadOnly && r.ReadOnly
			return
		}
	}
	if c := capability(v, r); c != nil {
		r.AccessMode, r.AttachmentMode = c.AccessMode, c.AttachmentMode
	}
	a.wants = append(a.wants, want{r, v})
}

// capability is the volume's first one with the modes that are asked for; nil when it has none.
func capability(v *api.Volume, r claim.Request) *api.VolumeCapability {
	for _, c := range v.RequestedCapabilities {
		if c != nil && (r.AccessMode == "" || c.AccessMode == r.AccessMode) && (r.AttachmentMode == "" || c.AttachmentMode == r.AttachmentMode) {
			return c
		}
	}
	return nil
}

// Impossible is why no node can do, or "".
func (a *VolumeAsk) Impossible() string { return a.impossible }

// unusable is what is wrong with the volume whatever the node.
func (vs *Volumes) unusable(w want) string {
	v := w.volume
	reason := ""
	switch v.Provision.State {
	case api.VolumeCreating, api.VolumeDeleting:
		reason = fmt.Sprintf("CSI volume %s is %s", v.ID, v.Provision.State)
	case api.VolumeFailed:
		reason = fmt.Sprintf("CSI volume %s could not be created: %s", v.ID, v.Provision.LastError)
	}
	if reason == "" && capability(v, w.request) == nil {
		reason = fmt.Sprintf("CSI volume %s does not offer access mode %q with attachment mode %q",
			v.ID, w.request.AccessMode, w.request.AttachmentMode)
	}
	if reason != "" {
		vs.missing[VolumeResource(v.Namespace, v.ID)] = true
		return reason
	}
	if reason = vs.controller(v.PluginID); reason != "" {
		vs.missing[PluginResource(v.PluginID)] = true
	}
	return reason
}

// controller is why the plugin's controller cannot serve, or "".
func (vs *Volumes) controller(plugin string) string {
	reason, known := vs.controllers[plugin]
	if known {
		return reason
	}
	required, healthy := false, false
	for n := range vs.view.NodesByPlugin(plugin) {
		if i := n.CSINodePlugins[plugin]; i != nil && i.RequiresControllerPlugin {
			required = true
		}
		if i := n.CSIControllerPlugins[plugin]; i != nil && n.Status == api.NodeStatusReady {
			required, healthy = required || i.RequiresControllerPlugin, healthy || i.Healthy
		}
	}
	if required && !healthy {
		reason = fmt.Sprintf("CSI plugin %s has no healthy controller", plugin)
	}
	vs.controllers[plugin] = reason
	return reason
}

// Refusal is why the allocation's volumes cannot be used on the node, or "".
func (a *VolumeAsk) Refusal(n *api.Node) string {
	if a.impossible != "" {
		return a.impossible
	}
	var room [4]external
	added := room[:0]
	for _, w := range a.wants {
		reason, news := a.all.onThis(n, w, added)
		if reason != "" {
			return reason
		}
		if news {
			added = append(added, w.external())
		}
		reason = a.all.claimable(n, w)
		if m := claim.Stale(n, w.volume.PluginID, w.volume.RemoteID()); m != nil && reason == "" {
			reason = "CSI " + claim.NotYet(w.volume.ID, n.ID, m)
		}
		if reason != "" {
			a.all.missing[VolumeResource(w.volume.Namespace, w.volume.ID)] = true
			return reason
		}
	}
	return ""
}

// onThis checks the node's plugin, its topology and its volume limit. added are volumes of the same
// allocation that were counted before; news says that this one counts, too.
func (vs *Volumes) onThis(n *api.Node, w want, added []external) (reason string, news bool) {
	plugin := w.volume.PluginID
	info := n.CSINodePlugins[plugin]
	switch {
	case info == nil:
		vs.missing[PluginResource(plugin)] = true
		return fmt.Sprintf("CSI plugin %s is missing from client %s", plugin, n.ID), false
	case !info.Healthy:
		vs.missing[PluginResource(plugin)] = true
		return fmt.Sprintf("CSI plugin %s is unhealthy on client %s", plugin, n.ID), false
	case info.NodeInfo != nil && !reaches(info.NodeInfo.AccessibleTopology, w.volume.Provision.Topologies):
		return "did not meet topology requirement", false
	}
	limit, learned := limitOf(n, plugin)
	if limit < 0 {
		return "", false
	}
	here, ext := vs.volumesOn(n.ID), w.external()
	if slices.Contains(here, ext) || slices.Contains(added, ext) {
		return "", false
	}
	count := 0
	for _, list := range [2][]external{here, added} {
		for i := range list {
			if list[i].plugin == plugin {
				count++
			}
		}
	}
	if int64(count) >= limit {
		vs.missing[PluginResource(plugin)] = true
		if learned {
			return fmt.Sprintf("CSI plugin %s has found no room for more than %d volumes on client %s", plugin, limit, n.ID), false
		}
		return fmt.Sprintf("CSI plugin %s has the maximum number of volumes on client %s", plugin, n.ID), false
	}
	return "", true
}

// limitOf is how many volumes of the plugin fit on the node, and whether its driver has taught that by
// refusing one; negative means that no limit is known.
func limitOf(n *api.Node, plugin string) (limit int64, learned bool) {
	limit = -1
	if i := n.CSINodePlugins[plugin].NodeInfo; i != nil && i.MaxVolumes > 0 {
		limit = i.MaxVolumes
	}
	if l := n.CSILimits[plugin]; l != nil && (limit < 0 || l.Volumes < limit) {
		return l.Volumes, true
	}
	return limit, false
}

func (vs *Volumes) volumesOn(node string) []external {
	here, known := vs.onNode[node]
	if known {
		return here
	}
	for c := range vs.view.ClaimsByNode(node) {
		if c.State != api.ClaimWaiting {
			here = with(here, external{c.PluginID, c.ExternalID})
		}
	}
	for at := range vs.view.AttachmentsByNode(node) {
		here = with(here, external{at.PluginID, at.ExternalID})
	}
	vs.onNode[node] = here
	return here
}

func with(list []external, e external) []external {
	if slices.Contains(list, e) {
		return list
	}
	return append(list, e)
}

// reaches reports whether the node's segments contain all of at least one of the volume's topologies.
func reaches(node *api.Topology, volume []*api.Topology) bool {
	wanted := 0
	for _, t := range volume {
		if t == nil || len(t.Segments) == 0 {
			continue
		}
		wanted++
		if node != nil && contains(node.Segments, t.Segments) {
			return true
		}
	}
	return wanted == 0
}

// contains compares keys without regard to case.
func contains(have, want map[string]string) bool {
	for k, v := range want {
		got, ok := have[k]
		for other, value := range have {
			if !ok && strings.EqualFold(other, k) {
				got, ok = value, true
			}
		}
		if !ok || got != v {
			return false
		}
	}
	return true
}
