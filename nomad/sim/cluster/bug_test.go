package cluster

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
)

// Bug breaks one thing on purpose, on the way between the services and the world.
type Bug string

// Bugs.
const (
	NoBug Bug = ""
	// BugNoFence has the controllers' host execute calls of deposed leaders however late they arrive.
	BugNoFence Bug = "late calls executed"
	// BugTwoCalls calls the driver twice at once.
	BugTwoCalls Bug = "two calls in flight"
	// BugUncalled answers detaches that were not done.
	BugUncalled Bug = "detach recorded before it is done"
	// BugProofSkipped answers detaches from nodes that are down without asking the storage.
	BugProofSkipped Bug = "proof of a lost node skipped"
	// BugNoTerm lets leaders after the first take what they hear of lost nodes for long ago.
	BugNoTerm Bug = "lease not extended after a leader change"
	// BugNoLease has nodes not keep their leases.
	BugNoLease Bug = "lease not kept by the node"
	// BugSilentLeader has nodes take the silence of a server for its word that nobody leads.
	BugSilentLeader Bug = "leases go on although there is a leader"
	// BugEarlyReport has nodes report unmounts before they do them.
	BugEarlyReport Bug = "reported before unmounted"
	// BugBootIgnored has nodes take the journal of an earlier boot for true.
	BugBootIgnored Bug = "journal of an earlier boot believed"
	// BugBootOfAgent has agents report another boot with each start of theirs.
	BugBootOfAgent Bug = "boot id changes with the agent"
	// BugUnresumed has new leaders leave the intents of their predecessors alone.
	BugUnresumed Bug = "intents not resumed"
	// BugEarlyFree frees claims when their allocation is told to stop.
	BugEarlyFree Bug = "claim freed before unmounted"
	// BugTwiceMade creates a second volume when the answer to the first call was lost.
	BugTwiceMade Bug = "second effect after an unknown outcome"
	// BugOldSnapshot has a follower take a snapshot for newer by one entry than it is.
	BugOldSnapshot Bug = "snapshot taken for newer"
	// BugFreshEmpty has a server without a state begin with the log that the leader has still.
	BugFreshEmpty Bug = "log without the snapshot before it"
	// BugTwiceApplied has followers apply an entry twice.
	BugTwiceApplied Bug = "entries applied twice"
	// BugOwnClock has followers stamp what they apply with their own time.
	BugOwnClock Bug = "followers use their own clock"
	// BugEarlyClaim has nodes claim volumes before the servers know of their boot.
	BugEarlyClaim Bug = "claimed before the boot is known"
	// BugDeafLeader has node reports vanish between server and log: stale unmounts are ignored.
	BugDeafLeader Bug = "reports of nodes ignored"
	// BugToldServers has nodes count a majority of the servers that gossip thought alive.
	BugToldServers Bug = "majority of the told servers"
	// BugWriteBack has tasks go on until the end of the lease, and their data be written back after it.
	BugWriteBack Bug = "write-back beyond the term"
	// BugForgetful has the controllers' hosts forget the intents that they saw, and the servers confirm any.
	BugForgetful Bug = "intents forgotten with the process"
	// BugVerdictLost loses on the way to the leader that a call may have had its effect.
	BugVerdictLost Bug = "uncertain taken for final"
	// BugNotFound takes NOT_FOUND of a detach for its proof.
	BugNotFound Bug = "not found taken for detached"
	// BugFrozenSecrets detaches with the secrets of the first call of a volume.
	BugFrozenSecrets Bug = "secrets frozen at the first call"
	// BugStorageOnly has the storage cut nodes off whose tasks should end before it does.
	BugStorageOnly Bug = "fence of both taken for storage"
	// BugUsesMixed takes the end of one use of a volume for that of all.
	BugUsesMixed Bug = "end of one use taken for all"
	// BugHungPlaces lets calls that hang keep their places.
	BugHungPlaces Bug = "places kept by what hangs"
	// BugBareRestore restores a state as it was saved, without what nodes and the storage have since.
	BugBareRestore Bug = "restored without the present"
	// BugStaleMounts takes a detach for the word that nothing is mounted any more of a claim that was given up.
	BugStaleMounts Bug = "stale mounts forgotten"
	// BugSpecLocked has the servers take the second spec of a volume for another volume.
	BugSpecLocked Bug = "locks of one spec only"
	// BugPurged has nodes that the servers do not know, such as one that was purged, tell no mounts.
	BugPurged Bug = "purged nodes taken for new"
	// BugLossPolicy has the servers not know what a volume wants when its node is lost.
	BugLossPolicy Bug = "loss policy forgotten"
)

// Bugs lists all bugs that can be planted, without the rare ones.
func Bugs() []Bug {
	return []Bug{
		BugNoFence, BugTwoCalls, BugUncalled, BugProofSkipped, BugNoTerm, BugNoLease, BugSilentLeader, BugEarlyReport,
		BugBootIgnored, BugBootOfAgent, BugUnresumed, BugEarlyFree, BugTwiceMade, BugTwiceApplied, BugOwnClock, BugEarlyClaim, BugDeafLeader, BugStaleMounts,
		BugWriteBack, BugVerdictLost, BugNotFound, BugFrozenSecrets, BugStorageOnly, BugUsesMixed, BugHungPlaces,
		BugOldSnapshot, BugFreshEmpty, BugBareRestore, BugSpecLocked, BugPurged, BugLossPolicy,
	}
}

// spoilt is the command that is written instead, none at all, and one that follows it.
func (s *server) spoilt(cmd fsm.Command) (instead, after fsm.Command) {
	switch c := cmd.(type) {
	case *nodes.SetStatus:
		if s.w.bug == BugNoTerm && s.w.log.term > 1 && c.Missed {
			next := *c
			next.Silence = time.Hour
			return &next, nil
		}
	case *commands.Attached:
		if n := s.store.Read().Node(c.NodeID); s.w.bug == BugStaleMounts && n != nil && !c.Published && c.Reason == "" {
			if m := claim.Stale(n, c.PluginID, c.ExternalID); m != nil {
				return cmd, &commands.Report{Namespace: m.Namespace, VolumeID: m.VolumeID, AllocID: m.AllocID, NodeID: n.ID}
			}
		}
	case *commands.Register:
		if s.w.bug == BugSpecLocked {
			return estranged(c), nil
		}
	case *commands.Report:
		if s.w.bug == BugDeafLeader && c.Reason == "" {
			return nil, nil
		}
		if s.w.bug == BugUsesMixed && c.Reason == "" && c.Use == read {
			other := *c
			other.Use = written
			return cmd, &other
		}
	case *plan.Apply:
		if s.w.bug == BugEarlyFree {
			return cmd, s.freed(c)
		}
	}
	return cmd, nil
}

// freed is the report that nobody made for what a plan stops.
func (s *server) freed(c *plan.Apply) fsm.Command {
	for _, e := range c.Plans {
		for _, stop := range e.Stops {
			for held := range s.store.Read().ClaimsByAlloc(stop.ID) {
				return &commands.Report{Namespace: held.Namespace, VolumeID: held.VolumeID, AllocID: held.AllocID, NodeID: held.NodeID}
			}
		}
	}
	return nil
}

// misled reports whether a call of a leader to a controller is answered without being made.
func (c counted) misled(method string, req any) (answered, dropped bool) {
	w := c.s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	switch r := req.(type) {
	case *api.ControllerUnpublishRequest:
		down := false
		for _, n := range w.nodes {
			down = down || provider(n.id) == r.ProviderNodeID && (n.agent == nil || w.cut[[2]string{c.s.id, n.id}])
		}
		answered = w.bug == BugUncalled || w.bug == BugProofSkipped && down
		dropped = w.bug == BugUnresumed && r.Fence < c.s.since
	case *api.ControllerPublishRequest:
		dropped = w.bug == BugUnresumed && r.Fence < c.s.since
	case *api.ControllerCreateRequest:
		if w.bug == BugTwiceMade && w.calls["made "+r.Name] > 0 && !strings.Contains(r.Name, "again") {
			r.Name += "-again"
		}
		w.calls["made "+r.Name]++
	}
	return answered, dropped
}

// again makes a call a second time.
func (c counted) again(ctx context.Context, method string, req any, key string) {
	w := c.s.w
	w.sleep(ctx, time.Millisecond)
	w.mu.Lock()
	if w.calls[key]++; w.calls[key] > 1 {
		w.fail("%d calls are in flight of %s", w.calls[key], key)
	}
	w.mu.Unlock()
	_ = c.to.Invoke(ctx, method, req, &api.ControllerPublishResponse{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[key]--
}

// reportEarly says that what is about to be unmounted is unmounted.
func (a *agent) reportEarly(ctx context.Context, path string) {
	n := a.n
	n.w.mu.Lock()
	r := n.announced(path)
	n.w.mu.Unlock()
	if r == nil {
		return
	}
	_, _ = wire.VolumeUnpublish.Call(ctx, a, &api.VolumeUnpublishRequest{
		VolumeID: r.VolumeID, Use: r.Use, AllocID: r.AllocID, NodeID: n.id, NodeSecret: "secret-" + n.id, WriteRequest: api.WriteRequest{Namespace: home(r.VolumeID)},
	})
}

// spoilt is the handler of a node that is served instead.
func (a *agent) spoilt(h wire.Handler) wire.Handler {
	serve := h.Serve
	if a.n.w.bug != BugNoFence {
		return h
	}
	h.Serve = func(ctx context.Context, req any) (any, error) {
		switch r := req.(type) {
		case *api.ControllerPublishRequest:
			r.Fence = 0
		case *api.ControllerUnpublishRequest:
			r.Fence = 0
		case *api.ControllerCreateRequest:
			r.Fence = 0
		case *api.ControllerDeleteRequest:
			r.Fence = 0
		}
		return serve(ctx, req)
	}
	return h
}

// heard is what the leader learns of the failure of a call.
func (w *World) heard(err error) error {
	call := (*fault.Call)(nil)
	if !errors.As(err, &call) {
		return err
	}
	switch {
	case w.bug == BugNotFound && call.Verdict == fault.VerdictVerify:
		return nil
	case w.bug == BugVerdictLost && call.RPC == "CreateVolume" && call.Uncertain:
		next := *call
		next.Uncertain, next.Verdict = false, fault.VerdictFinal
		return &next
	}
	return err
}

// freeze puts the secrets of the first call of a volume into a later one.
func (w *World) freeze(req any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch r := req.(type) {
	case *api.ControllerPublishRequest:
		if _, ok := w.frozen[r.ExternalID]; !ok {
			w.frozen[r.ExternalID] = r.Secrets
		}
	case *api.ControllerUnpublishRequest:
		if s, ok := w.frozen[r.ExternalID]; ok {
			r.Secrets = s
		}
	}
}
