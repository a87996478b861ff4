package claim

import (
	"fmt"
	"iter"

	"github.com/open-nomad/open-nomad/api"
)

// Controllers is what nodes report about the controllers of a plugin.
type Controllers struct {
	// Service is set when an instance reports that the plugin has a controller.
	Service bool
	// Attach is set when volumes must be attached to nodes by a controller. While no controller has reported its
	// capabilities, they must if there is a controller at all.
	Attach bool
	// Detach is set when a healthy one attaches volumes: only a healthy one can cut a node off.
	Detach bool
	// Healthy is set when a ready node runs a healthy one.
	Healthy bool
}

// ControllersOf gathers what the nodes of a plugin report about its controllers. The last report of an instance that
// is unhealthy now still counts.
func ControllersOf(nodes iter.Seq[*api.Node], plugin string) (c Controllers) {
	known := false
	for n := range nodes {
		node, controller := n.CSINodePlugins[plugin], n.CSIControllerPlugins[plugin]
		c.Service = c.Service || node != nil && node.OwnedBy == "" && node.RequiresControllerPlugin
		if controller == nil || controller.OwnedBy != "" {
			continue
		}
		c.Service = c.Service || controller.RequiresControllerPlugin
		c.Healthy = c.Healthy || controller.Healthy && n.Status == api.NodeStatusReady
		if i := n.HealthyController(plugin); i != nil {
			c.Detach = c.Detach || i.SupportsAttachDetach
		}
		if i := controller.ControllerInfo; i != nil {
			known, c.Attach = true, c.Attach || i.SupportsAttachDetach
		}
		if c == (Controllers{Service: true, Attach: true, Detach: true, Healthy: true}) { // no further node can add to it
			break
		}
	}
	c.Attach = c.Attach || c.Service && !known
	return c
}

// Unfenced returns why nothing would keep the claim's node from writing once it is lost, where the volume relies on
// its storage for that. It returns "" where something does, or where a second writer does no harm. specs are all rows
// that name the external volume, at is its attachment to the claim's node, or nil.
func Unfenced(v *api.Volume, specs []*api.Volume, c *api.VolumeClaim, by Controllers, at *api.VolumeAttachment) string {
	switch {
	case v.Fence != api.FenceStorage || !Contested(c, specs):
		return ""
	case !by.Detach:
		return fmt.Sprintf("volume %q has fence = %q, and no healthy controller of CSI plugin %q attaches volumes", v.ID, v.Fence, v.PluginID)
	case NeverAttached(at):
		return fmt.Sprintf("volume %q has fence = %q, and is used on node %s without an attach, as CSI plugin %q needed none then: it is attached there when those users have stopped",
			v.ID, v.Fence, at.NodeID, v.PluginID)
	}
	return ""
}

// NeverAttached reports whether users of a node go without an attach, so that there is nothing to detach.
func NeverAttached(at *api.VolumeAttachment) bool { return at != nil && at.NotCalled }
