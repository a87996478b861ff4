package volumes

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// forceWait bounds asking a node to unmount what its plugin cannot, forceAgain asking one that did not answer lately.
const (
	forceWait  = 15 * time.Second
	forceAgain = time.Second
	lately     = 10 * time.Minute
)

// silence remembers which nodes did not unmount in time what they were forced to, so that nobody waits for that twice.
// Nodes are told apart by plugin: a frozen driver says nothing of the others.
type silence struct {
	mu    sync.Mutex
	since map[[2]string]time.Time
}

// wait is how long to wait for the node now.
func (s *silence) wait(node [2]string, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, silent := s.since[node]; silent && now.Sub(at) < lately {
		return forceAgain
	}
	return forceWait
}

// note remembers whether the node was silent.
func (s *silence) note(node [2]string, silent bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.since, node)
	for n, at := range s.since {
		if now.Sub(at) >= lately {
			delete(s.since, n)
		}
	}
	if silent {
		if s.since == nil {
			s.since = map[[2]string]time.Time{}
		}
		s.since[node] = now
	}
}

// unmountByForce has a node that is there unmount by itself what is left of allocations that are over, whether its
// plugin is there or not. The operator's word counts already; the node's is better, and leaves nothing behind.
func (s *Service) unmountByForce(ctx context.Context, held []*api.VolumeClaim) {
	if len(held) == 0 {
		return
	}
	node := [2]string{held[0].NodeID, held[0].PluginID}
	ctx, cancel := context.WithTimeout(ctx, s.silent.wait(node, s.now()))
	defer cancel()
	defer func() { s.silent.note(node, errors.Is(ctx.Err(), context.DeadlineExceeded), s.now()) }()
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
