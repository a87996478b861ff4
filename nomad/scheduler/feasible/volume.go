package feasible

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// VolumeView is what placement reads about volumes.
type VolumeView interface {
	Node(id string) *api.Node
	Alloc(id string) *api.Allocation
	Volume(ns, id string) *api.Volume
	VolumesByExternal(plugin, external string) iter.Seq[*api.Volume]
	ClaimsByExternal(plugin, external string) iter.Seq[*api.VolumeClaim]
	AttachmentsOf(plugin, external string) iter.Seq[*api.VolumeAttachment]
	ClaimsByNode(node string) iter.Seq[*api.VolumeClaim]
	AttachmentsByNode(node string) iter.Seq[*api.VolumeAttachment]
	NodesByPlugin(plugin string) iter.Seq[*api.Node]
	JobsByPlugin(plugin string) iter.Seq[*api.Job]
	NodesByStaleMount(plugin, external string) iter.Seq[*api.Node]
	HostVolumeClaimsOfJob(ns, job string) iter.Seq[*api.HostVolumeClaim]
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
	controllers map[string]claim.Controllers
	outsides    map[*api.Volume]string
	// later leaves out of the volumes on a node those that leave it by the plan.
	later bool
}

type external struct{ plugin, id string }

// NewVolumes starts the checks of an evaluation; stopping is shared with the caller, who adds to it.
func NewVolumes(view VolumeView, ns string, stopping map[string]bool) *Volumes {
	return &Volumes{view: view, ns: ns, stopping: stopping}
}

// begin makes the books; most evaluations ask for no volume.
func (vs *Volumes) begin() {
	if vs.books == nil {
		vs.missing, vs.controllers = map[string]bool{}, map[string]claim.Controllers{}
		vs.books, vs.onNode = map[external]*book{}, map[string][]external{}
		vs.outsides = map[*api.Volume]string{}
	}
}

// Missing lists what refused placements and could allow them without any change of nodes.
func (vs *Volumes) Missing() []string { return slices.Sorted(maps.Keys(vs.missing)) }

// VolumeAsk is the volumes that one allocation asks for.
type VolumeAsk struct {
	all        *Volumes
	wants      []want
	host       []hostWant
	impossible string
}

// want is one use of a volume; its request has no node yet.
type want struct {
	request claim.Request
	volume  *api.Volume
	kind    askKind
}

func (w want) external() external { return external{w.volume.PluginID, w.volume.RemoteID()} }

// Ask looks up the volumes of an allocation of the group that is to be placed.
func (vs *Volumes) Ask(g *api.TaskGroup, a *api.Allocation) *VolumeAsk {
	vs.begin()
	ask := &VolumeAsk{all: vs, host: vs.hostWants(g, a)}
	var absent []string
	uses := api.VolumeUses(g.Volumes, a.Name)
	for i, u := range uses {
		for _, other := range uses[:i] {
			ask.impossible = cmp.Or(ask.impossible, other.Contradicts(u))
		}
		v := vs.view.Volume(vs.ns, u.VolumeID)
		if v == nil {
			absent = appendUnique(absent, u.VolumeID)
			vs.missing[VolumeResource(vs.ns, u.VolumeID)] = true
			continue
		}
		r := claim.RequestFor(v, u, a)
		w := want{r, v, kindOf(r)}
		for _, other := range ask.wants {
			ask.impossible = cmp.Or(ask.impossible, vs.conflict(w, other))
		}
		ask.wants = append(ask.wants, w)
	}
	if len(absent) > 0 {
		ask.impossible = "missing CSI volume(s) " + strings.Join(absent, ", ")
	}
	for _, w := range ask.wants {
		if ask.impossible == "" {
			ask.impossible = vs.unusable(w)
		}
	}
	return ask
}

// conflict is why one allocation cannot have both, whatever the node, until a spec changes.
func (vs *Volumes) conflict(w, other want) string {
	reason := claim.Apart(w.request, other.request)
	if w.volume.ID != other.volume.ID && w.external() == other.external() {
		reason = claim.ApartBySpec(w.request, other.request)
	}
	if reason != "" {
		for _, v := range []*api.Volume{w.volume, other.volume} {
			vs.missing[VolumeResource(v.Namespace, v.ID)] = true
		}
	}
	return reason
}

// Impossible is why no node can do, or "".
func (a *VolumeAsk) Impossible() string { return a.impossible }

// unusable is what is wrong with the volume whatever the node.
func (vs *Volumes) unusable(w want) string {
	v := w.volume
	reason := claim.Unusable(v, vs.book(v).specs)
	if reason == "" && claim.Capability(v, w.request) == nil {
		reason = fmt.Sprintf("volume %q does not offer access mode %q with attachment mode %q", v.ID, w.request.AccessMode, w.request.AttachmentMode)
	}
	if reason != "" {
		vs.missing[VolumeResource(v.Namespace, v.ID)] = true
		return "CSI " + reason
	}
	if reason = vs.controller(v.PluginID); reason != "" {
		vs.missing[PluginResource(v.PluginID)] = true
		return reason
	}
	if reason = vs.unfenced(w, nil); reason != "" {
		vs.missing[PluginResource(v.PluginID)] = true
		vs.missing[VolumeResource(v.Namespace, v.ID)] = true
	}
	return reason
}

// unfenced is why nothing would cut off a lost node with that attachment, or with none, where the volume relies on that.
func (vs *Volumes) unfenced(w want, at *api.VolumeAttachment) string {
	r := w.request
	c := &api.VolumeClaim{Mode: claim.ModeOf(r.ReadOnly, r.AccessMode), AccessMode: r.AccessMode, AttachmentMode: r.AttachmentMode}
	if reason := claim.Unfenced(w.volume, vs.book(w.volume).specs, c, vs.controllersOf(w.volume.PluginID), at); reason != "" {
		return "CSI " + reason
	}
	return ""
}

// uncalled is why the node, which uses the volume without an attach, cannot have another user of it, or "".
func (vs *Volumes) uncalled(n *api.Node, w want) string {
	for _, at := range vs.book(w.volume).attachments {
		if at.NodeID == n.ID && claim.NeverAttached(at) {
			return vs.unfenced(w, at)
		}
	}
	return ""
}

// controller is why the plugin's controller cannot attach volumes that need that, or "".
func (vs *Volumes) controller(plugin string) string {
	if c := vs.controllersOf(plugin); c.Attach && !c.Healthy {
		return fmt.Sprintf("CSI plugin %s has no healthy controller", plugin)
	}
	return ""
}

func (vs *Volumes) controllersOf(plugin string) claim.Controllers {
	c, known := vs.controllers[plugin]
	if !known {
		c = claim.ControllersOf(vs.view.NodesByPlugin(plugin), plugin)
		vs.controllers[plugin] = c
	}
	return c
}

// attaches reports whether the volume has to be attached to a node, by the name that the provider has for that.
func (vs *Volumes) attaches(v *api.Volume) bool {
	for range vs.view.AttachmentsOf(v.PluginID, v.RemoteID()) { // what the plugin says now changes nothing about them
		return true
	}
	return vs.controllersOf(v.PluginID).Attach
}

// Refusal is why the allocation's volumes cannot be used on the node, or "".
func (a *VolumeAsk) Refusal(n *api.Node) string {
	reason, _ := a.refusal(n)
	return reason
}

// InUse reports whether it is for what others have that the volumes cannot be used on the node: its plugins serve it, and
// it is where they can be used.
func (a *VolumeAsk) InUse(n *api.Node) bool {
	_, taken := a.refusal(n)
	return taken
}

// FitsAfterDetach reports whether the volumes can be used on the node when those have left it whose users the plan stops.
func (a *VolumeAsk) FitsAfterDetach(n *api.Node) bool {
	a.all.later = true
	defer func() { a.all.later = false }()
	return a.Refusal(n) == ""
}

func (a *VolumeAsk) refusal(n *api.Node) (reason string, taken bool) {
	if a.impossible != "" {
		return a.impossible, false
	}
	if reason := a.hostRefusal(n); reason != "" {
		return reason, false
	}
	var buf [4]external
	added := buf[:0]
	for _, w := range a.wants {
		reason := a.all.nodeRefusal(n, w)
		if reason == "" {
			var news bool
			taken = true
			if reason, news = a.all.fits(n, w, added); news {
				added = append(added, w.external())
			}
		}
		if reason == "" {
			reason = a.all.claimable(n, w)
		}
		if reason == "" {
			reason = a.all.stale(n, w)
		}
		if reason == "" {
			reason = a.all.uncalled(n, w)
		}
		if reason != "" { // the volume may be registered anew, whatever it is
			a.all.missing[VolumeResource(w.volume.Namespace, w.volume.ID)] = true
			return reason, taken
		}
		taken = false
	}
	return "", false
}

// stale is why a mount of a claim that was given up keeps the volume from the node, or "".
func (vs *Volumes) stale(n *api.Node, w want) string {
	v := w.volume
	if m := claim.Stale(n, v.PluginID, v.RemoteID()); m != nil {
		return "CSI " + claim.NotYet(v.Namespace, v.ID, n.ID, m)
	}
	o, m := claim.Twin(n, v.PluginID, v.RemoteID(), slices.Values(vs.book(v).stale))
	if m == nil || !vs.attaches(v) {
		return ""
	}
	return "CSI " + claim.NotYetTwin(v.Namespace, v.ID, n.ID, v.PluginID, o, m)
}

// nodeRefusal checks the node's plugin and its topology.
func (vs *Volumes) nodeRefusal(n *api.Node, w want) string {
	plugin := w.volume.PluginID
	if reason := claim.Unserved(n, plugin); reason != "" {
		vs.missing[PluginResource(plugin)] = true
		return reason
	}
	if vs.attaches(w.volume) && claim.ProviderNode(n, plugin) == "" {
		vs.missing[PluginResource(plugin)] = true
		return fmt.Sprintf("CSI plugin %s has not reported its name for client %s", plugin, n.ID)
	}
	if info := n.CSINodePlugins[plugin]; info.NodeInfo != nil && !claim.Reaches(info.NodeInfo.AccessibleTopology, w.volume.Provision.Topologies) {
		return vs.outsideTopology(w.volume)
	}
	return ""
}

// outsideTopology is the refusal of all nodes that do not reach the volume.
func (vs *Volumes) outsideTopology(v *api.Volume) string {
	text, known := vs.outsides[v]
	if !known {
		text = fmt.Sprintf("did not meet topology requirement: CSI volume %q can be used where %s", v.ID, topologyList(v.Provision.Topologies))
		vs.outsides[v] = text
	}
	return text
}

// fits checks the node's volume limit. added are volumes of the same allocation that were counted before; news says that
// this one counts, too.
func (vs *Volumes) fits(n *api.Node, w want, added []external) (reason string, news bool) {
	plugin, here, ext := w.volume.PluginID, vs.volumesOn(n.ID), w.external()
	if vs.later {
		here = vs.keptOn(n.ID, here)
	}
	if slices.Contains(here, ext) || slices.Contains(added, ext) {
		return "", false
	}
	count := int64(0)
	for _, list := range [2][]external{here, added} {
		for i := range list {
			if list[i].plugin == plugin {
				count++
			}
		}
	}
	if reason := claim.Full(n, plugin, count); reason != "" {
		vs.missing[PluginResource(plugin)] = true
		return reason, false
	}
	return "", true
}

func (vs *Volumes) volumesOn(node string) []external {
	here, known := vs.onNode[node]
	if known {
		return here
	}
	for c := range vs.view.ClaimsByNode(node) {
		here = appendUnique(here, external{c.PluginID, c.ExternalID})
	}
	for at := range vs.view.AttachmentsByNode(node) {
		here = appendUnique(here, external{at.PluginID, at.ExternalID})
	}
	vs.onNode[node] = here
	return here
}

// keptOn are the volumes on the node without those that leave it by the plan: it stops whoever has them there and was not
// giving them back.
func (vs *Volumes) keptOn(node string, here []external) (kept []external) {
	stopped, stays := map[external]bool{}, map[external]bool{}
	for c := range vs.view.ClaimsByNode(node) {
		ext := external{c.PluginID, c.ExternalID}
		switch {
		case vs.stopping[c.AllocID]:
			stopped[ext] = true
		case !claim.Leaving(c.State):
			stays[ext] = true
		}
	}
	for _, ext := range here {
		if !stopped[ext] || stays[ext] {
			kept = append(kept, ext)
		}
	}
	return kept
}

func appendUnique[T comparable](list []T, e T) []T {
	if slices.Contains(list, e) {
		return list
	}
	return append(list, e)
}

// topologiesShown bounds how many topologies of a volume are named.
const topologiesShown = 5

// topologyList says where the topologies are.
func topologyList(list []*api.Topology) string {
	var all []string
	for _, t := range list {
		if t == nil || len(t.Segments) == 0 {
			continue
		}
		if len(all) == topologiesShown {
			all = append(all, "other places")
			break
		}
		var segments []string
		for _, k := range slices.Sorted(maps.Keys(t.Segments)) {
			segments = append(segments, k+"="+t.Segments[k])
		}
		all = append(all, strings.Join(segments, ","))
	}
	return strings.Join(all, " or ")
}
