package volumes

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// forceWait bounds asking a node to unmount what its plugin cannot.
const forceWait = 15 * time.Second

// unmountByForce has a node that is there unmount by itself what is left of allocations that are over, whether its
// plugin is there or not. The operator's word counts already; the node's is better, and leaves nothing behind.
func (s *Service) unmountByForce(ctx context.Context, held []*api.VolumeClaim) {
	ctx, cancel := context.WithTimeout(ctx, forceWait)
	defer cancel()
	for _, c := range held {
		tx := s.state.Read()
		if a := tx.Alloc(c.AllocID); a != nil && !a.Terminal() || ledger.Lost(tx.Node(c.NodeID)) {
			continue
		}
		err := s.drivers.Unmount(ctx, c, true)
		if err == nil {
			_, err = s.write(ctx, &commands.Report{Namespace: c.Namespace, VolumeID: c.VolumeID, AllocID: c.AllocID, Use: c.Use, NodeID: c.NodeID})
		}
		if err != nil {
			s.log.Warn("a volume that was detached by force may still be mounted", "volume", c.VolumeID, "namespace", c.Namespace,
				"alloc", c.AllocID, "node", c.NodeID, "error", err)
		}
	}
}

// staleOn are the stale mounts of an external volume on a node, as claims as far as unmounting goes.
func staleOn(tx *state.Txn, w *commands.WriteOff) (held []*api.VolumeClaim) {
	n := tx.Node(w.NodeID)
	if n == nil {
		return nil
	}
	for _, m := range n.StaleMounts {
		if m.PluginID == w.PluginID && m.ExternalID == w.ExternalID {
			held = append(held, &api.VolumeClaim{
				Namespace: m.Namespace, VolumeID: m.VolumeID, AllocID: m.AllocID, Use: m.Use, NodeID: n.ID, PluginID: m.PluginID, ExternalID: m.ExternalID, Since: m.Since,
			})
		}
	}
	return held
}
