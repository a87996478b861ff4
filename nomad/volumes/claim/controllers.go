package claim

import (
	"iter"

	"github.com/open-nomad/open-nomad/api"
)

// Controllers is what nodes say of the controllers of a plugin.
type Controllers struct {
	// Service is set when an instance says that the plugin has a controller.
	Service bool
	// Attach is set when volumes must be attached to nodes by a controller. While none has said what it can, they
	// must if there is one at all.
	Attach bool
	// Detach is set when a healthy one attaches volumes: only its word is one that a node can be cut off.
	Detach bool
	// Healthy is set when a ready node runs a healthy one.
	Healthy bool
}

// ControllersOf gathers what the nodes of a plugin say of its controllers. One that is unhealthy now has said what
// it can before.
func ControllersOf(nodes iter.Seq[*api.Node], plugin string) (c Controllers) {
	told := false
	for n := range nodes {
		node, controller := n.CSINodePlugins[plugin], n.CSIControllerPlugins[plugin]
		c.Service = c.Service || node != nil && node.RequiresControllerPlugin
		if controller == nil {
			continue
		}
		c.Service = c.Service || controller.RequiresControllerPlugin
		c.Healthy = c.Healthy || controller.Healthy && n.Status == api.NodeStatusReady
		if i := n.HealthyController(plugin); i != nil {
			c.Detach = c.Detach || i.SupportsAttachDetach
		}
		if i := controller.ControllerInfo; i != nil {
			told, c.Attach = true, c.Attach || i.SupportsAttachDetach
		}
	}
	c.Attach = c.Attach || c.Service && !told
	return c
}
