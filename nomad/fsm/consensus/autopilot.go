package consensus

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/hashicorp/raft"
	autopilot "github.com/hashicorp/raft-autopilot"

	"github.com/open-nomad/open-nomad/api"
)

// reconcileInterval lies between the autopilot's looks for servers to promote or to evict.
const reconcileInterval = 5 * time.Second

// Peer is a server as gossip sees it. Status is "alive", "failed", "left", or "" when nothing is known.
type Peer struct {
	ID, Name, Address, Version, Status string
}

// Oversight is what the autopilot asks about the servers of the region.
type Oversight interface {
	// AutopilotConfig returns the configuration of the autopilot.
	AutopilotConfig() *api.AutopilotConfiguration
	// Peers lists the servers that are known.
	Peers() []Peer
	// PeerInfo asks a server about its log.
	PeerInfo(ctx context.Context, p Peer) (*api.PeerInfoResponse, error)
	// Evict marks a failed server as removed; it must not block.
	Evict(p Peer)
}

// Oversee runs the autopilot until ctx ends: it promotes servers that proved stable, and evicts dead
// ones. Only the leader does that.
func (r *Raft) Oversee(ctx context.Context, o Oversight) error {
	pilot := autopilot.New(r.raft, &overseer{Oversight: o}, autopilot.WithLogger(r.log.Named("autopilot")),
		autopilot.WithReconcileInterval(reconcileInterval))
	r.pilot.Store(pilot)
	defer r.pilot.Store(nil)
	pilot.Start(ctx)
	<-ctx.Done()
	<-pilot.Stop()
	return nil
}

// Health returns the health of the servers as the autopilot of the leader sees it; nil on other servers.
func (r *Raft) Health() *api.OperatorHealthReply {
	pilot := r.pilot.Load()
	if pilot == nil {
		return nil
	}
	st := pilot.GetState()
	if st == nil {
		return nil
	}
	out := &api.OperatorHealthReply{Healthy: st.Healthy, FailureTolerance: st.FailureTolerance, Leader: string(st.Leader)}
	for _, id := range st.Voters {
		out.Voters = append(out.Voters, string(id))
	}
	for _, s := range st.Servers {
		out.Servers = append(out.Servers, &api.ServerHealth{
			ID: string(s.Server.ID), Name: s.Server.Name, Address: string(s.Server.Address),
			SerfStatus: string(s.Server.NodeStatus), Version: s.Server.Version, Leader: s.State == autopilot.RaftLeader,
			LastContact: s.Stats.LastContact, LastTerm: s.Stats.LastTerm, LastIndex: s.Stats.LastIndex,
			Healthy: s.Health.Healthy, Voter: s.HasVotingRights(), StableSince: s.Health.StableSince.UTC().Truncate(time.Second),
		})
	}
	slices.SortFunc(out.Servers, func(a, b *api.ServerHealth) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// overseer speaks to the autopilot's library.
type overseer struct{ Oversight }

var _ autopilot.ApplicationIntegration = (*overseer)(nil)

func (o *overseer) AutopilotConfig() *autopilot.Config {
	c := o.Oversight.AutopilotConfig()
	return &autopilot.Config{
		CleanupDeadServers: c.CleanupDeadServers, LastContactThreshold: c.LastContactThreshold,
		MaxTrailingLogs: c.MaxTrailingLogs, MinQuorum: c.MinQuorum, ServerStabilizationTime: c.ServerStabilizationTime,
	}
}

func (o *overseer) NotifyState(*autopilot.State) {}

func (o *overseer) KnownServers() map[raft.ServerID]*autopilot.Server {
	out := map[raft.ServerID]*autopilot.Server{}
	for _, p := range o.Peers() {
		status := autopilot.NodeUnknown
		if p.Status != "" {
			status = autopilot.NodeStatus(p.Status)
		}
		out[raft.ServerID(p.ID)] = &autopilot.Server{
			ID: raft.ServerID(p.ID), Name: p.Name, Address: raft.ServerAddress(p.Address), NodeStatus: status,
			Version: p.Version, RaftVersion: 3, NodeType: autopilot.NodeVoter,
		}
	}
	return out
}

// FetchServerStats asks all servers at once; servers that do not reply in time have no statistics.
func (o *overseer) FetchServerStats(ctx context.Context, servers map[raft.ServerID]*autopilot.Server) map[raft.ServerID]*autopilot.ServerStats {
	type answer struct {
		id    raft.ServerID
		stats *autopilot.ServerStats
	}
	answers := make(chan answer, len(servers))
	for id, s := range servers {
		go func() {
			got, err := o.PeerInfo(ctx, Peer{ID: string(id), Name: s.Name, Address: string(s.Address)})
			if err != nil {
				answers <- answer{id, nil}
				return
			}
			answers <- answer{id, &autopilot.ServerStats{
				LastContact: time.Duration(got.LastContactNS), LastTerm: got.LastTerm, LastIndex: got.LastIndex,
			}}
		}()
	}
	out := map[raft.ServerID]*autopilot.ServerStats{}
	for range servers {
		if a := <-answers; a.stats != nil {
			out[a.id] = a.stats
		}
	}
	return out
}

func (o *overseer) RemoveFailedServer(s *autopilot.Server) {
	o.Evict(Peer{ID: string(s.ID), Name: s.Name, Address: string(s.Address), Status: string(s.NodeStatus)})
}
