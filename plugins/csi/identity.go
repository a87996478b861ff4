package csi

import (
	"context"
	"maps"
	"math"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// Info names a plugin's program.
type Info struct {
	// Name is the driver's name, such as hostpath.csi.k8s.io.
	Name    string
	Version string
}

// Identity is what the plugin as a whole can do.
type Identity struct {
	// Controller is set when there is a controller service.
	Controller bool
	// Topology is set when volumes are not reachable from everywhere.
	Topology bool
	// OfflineExpansion is set when volumes must not be published while they grow.
	OfflineExpansion bool
}

// Capabilities is all that a plugin can do. Controller or Node is nil when it has no such service.
type Capabilities struct {
	Identity   Identity
	Controller *api.CSIControllerInfo
	Node       *api.CSINodeInfo

	controllerModes, nodeModes bool // the two alpha single-node modes are known
}

// Probe asks whether the plugin works. It returns false while the plugin is still starting.
func (c *Client) Probe(ctx context.Context) (ready bool, err error) {
	r, err := call(ctx, c, "Probe", c.identity.Probe, &pb.ProbeRequest{})
	if err != nil {
		return false, err
	}
	return r.GetReady() == nil || r.GetReady().GetValue(), nil
}

// PluginInfo asks for the driver's name and version.
func (c *Client) PluginInfo(ctx context.Context) (Info, error) {
	r, err := call(ctx, c, "GetPluginInfo", c.identity.GetPluginInfo, &pb.GetPluginInfoRequest{})
	if err != nil {
		return Info{}, err
	}
	if checkName("name", r.GetName()) != nil {
		return Info{}, hole("GetPluginInfo", "no usable name")
	}
	return Info{Name: r.GetName(), Version: c.plain(r.GetVendorVersion())}, nil
}

// Services selects the services of a plugin that are asked.
type Services struct{ Controller, Node bool }

// Fingerprint requests all capabilities, and what the plugin reports about its node. The services named must be there.
func (c *Client) Fingerprint(ctx context.Context, want Services) (*Capabilities, error) {
	out := &Capabilities{}
	r, err := call(ctx, c, "GetPluginCapabilities", c.identity.GetPluginCapabilities, &pb.GetPluginCapabilitiesRequest{})
	if err != nil {
		return nil, err
	}
	out.Identity = identityOf(r)
	if want.Controller {
		if err := c.controllerCapabilities(ctx, out); err != nil {
			return nil, err
		}
		out.Controller.OfflineExpansion = out.Identity.OfflineExpansion
	}
	if want.Node {
		if err := c.nodeCapabilities(ctx, out); err != nil {
			return nil, err
		}
	}
	c.learn(out)
	return out, nil
}

func identityOf(r *pb.GetPluginCapabilitiesResponse) Identity {
	var out Identity
	for _, p := range r.GetCapabilities() {
		switch p.GetService().GetType() {
		case pb.PluginCapability_Service_CONTROLLER_SERVICE:
			out.Controller = true
		case pb.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS:
			out.Topology = true
		}
		if p.GetVolumeExpansion().GetType() == pb.PluginCapability_VolumeExpansion_OFFLINE {
			out.OfflineExpansion = true
		}
	}
	return out
}

func (c *Client) controllerCapabilities(ctx context.Context, out *Capabilities) error {
	r, err := call(ctx, c, "ControllerGetCapabilities", c.controller.ControllerGetCapabilities, &pb.ControllerGetCapabilitiesRequest{})
	if err != nil {
		return err
	}
	info := &api.CSIControllerInfo{}
	out.Controller = info
	for _, p := range r.GetCapabilities() {
		switch p.GetRpc().GetType() {
		case pb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME:
			info.SupportsCreateDelete = true
		case pb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME:
			info.SupportsAttachDetach = true
		case pb.ControllerServiceCapability_RPC_LIST_VOLUMES:
			info.SupportsListVolumes = true
		case pb.ControllerServiceCapability_RPC_GET_CAPACITY:
			info.SupportsGetCapacity = true
		case pb.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT:
			info.SupportsCreateDeleteSnapshot = true
		case pb.ControllerServiceCapability_RPC_LIST_SNAPSHOTS:
			info.SupportsListSnapshots = true
		case pb.ControllerServiceCapability_RPC_CLONE_VOLUME:
			info.SupportsClone = true
		case pb.ControllerServiceCapability_RPC_PUBLISH_READONLY:
			info.SupportsReadOnlyAttach = true
		case pb.ControllerServiceCapability_RPC_EXPAND_VOLUME:
			info.SupportsExpand = true
		case pb.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES:
			info.SupportsListVolumesAttachedNodes = true
		case pb.ControllerServiceCapability_RPC_GET_VOLUME:
			info.SupportsGet = true
		case pb.ControllerServiceCapability_RPC_GET_SNAPSHOT:
			info.SupportsGetSnapshot = true
		case pb.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER:
			out.controllerModes = true
		case legacyControllerCondition:
			info.SupportsCondition = true
		}
	}
	return nil
}

// Capabilities that CSI 1.13 took away and that older plugins still announce.
const (
	legacyControllerCondition = 11
	legacyNodeCondition       = 4
)

func (c *Client) nodeCapabilities(ctx context.Context, out *Capabilities) error {
	r, err := call(ctx, c, "NodeGetCapabilities", c.node.NodeGetCapabilities, &pb.NodeGetCapabilitiesRequest{})
	if err != nil {
		return err
	}
	info := &api.CSINodeInfo{}
	for _, p := range r.GetCapabilities() {
		switch p.GetRpc().GetType() {
		case pb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME:
			info.RequiresNodeStageVolume = true
		case pb.NodeServiceCapability_RPC_GET_VOLUME_STATS:
			info.SupportsStats = true
		case pb.NodeServiceCapability_RPC_EXPAND_VOLUME:
			info.SupportsExpand = true
		case pb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER:
			out.nodeModes = true
		case pb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP:
			info.SupportsVolumeMountGroup = true
		case legacyNodeCondition:
			info.SupportsCondition = true
		}
	}
	i, err := call(ctx, c, "NodeGetInfo", c.node.NodeGetInfo, &pb.NodeGetInfoRequest{})
	if err != nil {
		return err
	}
	if err := checkNodeID(i.GetNodeId()); err != nil {
		return hole("NodeGetInfo", "a bad node id: "+err.Error())
	}
	if what := replyID(i.GetNodeId()); what != "" {
		return hole("NodeGetInfo", "a bad node id: "+what)
	}
	info.ID, info.MaxVolumes = i.GetNodeId(), i.GetMaxVolumesPerNode()
	if info.MaxVolumes <= 0 {
		info.MaxVolumes = math.MaxInt64
	}
	if what := replyTopology(i.GetAccessibleTopology()); what != "" {
		return hole("NodeGetInfo", what)
	}
	if t := i.GetAccessibleTopology(); t != nil {
		info.AccessibleTopology = &api.Topology{Segments: maps.Clone(t.GetSegments())}
	}
	out.Node = info
	return nil
}

// learn remembers what was found; a service that was not asked for keeps what is known of it.
func (c *Client) learn(found *Capabilities) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := *found
	if old := c.caps; old != nil {
		if next.Controller == nil {
			next.Controller, next.controllerModes = old.Controller, old.controllerModes
		}
		if next.Node == nil {
			next.Node, next.nodeModes = old.Node, old.nodeModes
		}
	}
	c.caps = &next
}

func (c *Client) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.caps = nil
}

// known returns the capabilities of the services, asking for them the first time.
func (c *Client) known(ctx context.Context, want Services) (*Capabilities, error) {
	c.mu.Lock()
	caps := c.caps
	c.mu.Unlock()
	if caps != nil && (!want.Controller || caps.Controller != nil) && (!want.Node || caps.Node != nil) {
		return caps, nil
	}
	return c.Fingerprint(ctx, want)
}

// needs returns the capabilities of the controller when it can do what is asked.
func (c *Client) needs(ctx context.Context, rpc string, can func(*api.CSIControllerInfo) bool) (*Capabilities, error) {
	caps, err := c.known(ctx, Services{Controller: true})
	if err != nil {
		return nil, err
	}
	if can != nil && !can(caps.Controller) {
		return nil, fault.New(fault.Unimplemented, "%s: the plugin does not offer this", rpc)
	}
	return caps, nil
}
