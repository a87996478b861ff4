package csiplugins

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// probeTimeout bounds the calls of one instance that a server asks for.
const probeTimeout = 5 * time.Second

// probe calls the instances of a plugin, all at the same time, with calls that read no volume. It does not change what
// the node reports about them.
func (s *Service) probe(ctx context.Context, r *api.NodePluginProbeRequest) (*api.NodePluginProbeResponse, error) {
	out := &api.NodePluginProbeResponse{}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var all sync.WaitGroup
	for _, p := range s.registry.all() {
		if p.PluginID != r.PluginID {
			continue
		}
		i := &api.PluginInstance{Type: p.Type, AllocID: p.AllocID, Socket: p.Socket, Asked: true}
		out.Instances = append(out.Instances, i)
		all.Go(func() { s.registry.examine(ctx, p, i) })
	}
	all.Wait()
	return out, nil
}

// examine adds the replies of an instance.
func (g *registry) examine(ctx context.Context, p *Plugin, i *api.PluginInstance) {
	began := time.Now()
	f := g.ask(ctx, p)
	i.Took, i.Ready, i.Provider, i.Version = time.Since(began), f.err == nil && !f.starting, f.info.Name, f.info.Version
	if f.err != nil {
		i.Error = f.err.Error()
		if ctx.Err() != nil {
			i.Error = fmt.Sprintf("no reply within %s: %s", probeTimeout, i.Error)
		}
	}
	if f.caps == nil {
		return
	}
	has := map[string]bool{}
	if c := f.caps.Controller; c != nil {
		maps.Copy(has, controllerCapabilities(c))
	}
	if n := f.caps.Node; n != nil {
		i.ProviderNodeID = n.ID
		maps.Copy(has, nodeCapabilities(n))
	}
	maps.DeleteFunc(has, func(_ string, yes bool) bool { return !yes })
	i.Capabilities = slices.Sorted(maps.Keys(has))
}

func controllerCapabilities(c *api.CSIControllerInfo) map[string]bool {
	return map[string]bool{
		"CREATE_DELETE_VOLUME": c.SupportsCreateDelete, "PUBLISH_UNPUBLISH_VOLUME": c.SupportsAttachDetach, "LIST_VOLUMES": c.SupportsListVolumes,
		"GET_CAPACITY": c.SupportsGetCapacity, "CREATE_DELETE_SNAPSHOT": c.SupportsCreateDeleteSnapshot, "LIST_SNAPSHOTS": c.SupportsListSnapshots,
		"CLONE_VOLUME": c.SupportsClone, "PUBLISH_READONLY": c.SupportsReadOnlyAttach, "EXPAND_VOLUME": c.SupportsExpand,
		"LIST_VOLUMES_PUBLISHED_NODES": c.SupportsListVolumesAttachedNodes, "GET_VOLUME": c.SupportsGet, "GET_SNAPSHOT": c.SupportsGetSnapshot,
	}
}

func nodeCapabilities(n *api.CSINodeInfo) map[string]bool {
	return map[string]bool{
		"STAGE_UNSTAGE_VOLUME": n.RequiresNodeStageVolume, "GET_VOLUME_STATS": n.SupportsStats, "NODE_EXPAND_VOLUME": n.SupportsExpand,
		"VOLUME_MOUNT_GROUP": n.SupportsVolumeMountGroup,
	}
}
