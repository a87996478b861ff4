package consensus

import (
	"context"
	"fmt"
	"strconv"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// Bootstrapped reports whether this server has a log or a snapshot, and so belongs to a cluster.
func (r *Raft) Bootstrapped() (bool, error) {
	had, err := raft.HasExistingState(r.stores.Logs, r.stores.Stable, r.stores.Snapshots)
	if err != nil {
		return false, fmt.Errorf("look for raft state: %w", err)
	}
	return had, nil
}

// Bootstrap writes the first configuration of a new cluster. One server of the list does that; the
// others learn it from the log.
func (r *Raft) Bootstrap(servers []api.RaftServer) error {
	var conf raft.Configuration
	for _, s := range servers {
		conf.Servers = append(conf.Servers, raft.Server{ID: raft.ServerID(s.ID), Address: raft.ServerAddress(s.Address)})
	}
	if err := r.raft.BootstrapCluster(conf).Error(); err != nil {
		return fmt.Errorf("bootstrap cluster: %w", err)
	}
	r.stand()
	return nil
}

// AddVoter makes a server a voter, or records its new address.
func (r *Raft) AddVoter(ctx context.Context, id, address string) error {
	return r.await(ctx, r.raft.AddVoter(raft.ServerID(id), raft.ServerAddress(address), 0, enqueueTimeout))
}

// AddNonvoter lets a server copy the log without a vote.
func (r *Raft) AddNonvoter(ctx context.Context, id, address string) error {
	return r.await(ctx, r.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(address), 0, enqueueTimeout))
}

// DemoteVoter takes the vote of a server.
func (r *Raft) DemoteVoter(ctx context.Context, id string) error {
	return r.await(ctx, r.raft.DemoteVoter(raft.ServerID(id), 0, enqueueTimeout))
}

// RemoveServer takes a server out of the cluster.
func (r *Raft) RemoveServer(ctx context.Context, id string) error {
	return r.await(ctx, r.raft.RemoveServer(raft.ServerID(id), 0, enqueueTimeout))
}

// TransferLeadership makes another voter lead: the named one, or with an empty id any.
func (r *Raft) TransferLeadership(ctx context.Context, id, address string) error {
	if r.raft.State() != raft.Leader {
		return notLeader()
	}
	r.lease.handing.Add(1)
	defer r.lease.handing.Add(-1)
	if id == "" {
		return r.await(ctx, r.raft.LeadershipTransfer())
	}
	return r.await(ctx, r.raft.LeadershipTransferToServer(raft.ServerID(id), raft.ServerAddress(address)))
}

// Agreed is the version of the log that all servers of the cluster understand. A field of a later version must not be
// written yet.
func (r *Raft) Agreed() uint64 { return r.state.Read().AgreedVersion() }

// LastIndex is the index of the newest entry in the log.
func (r *Raft) LastIndex() uint64 { return r.raft.LastIndex() }

// AppliedIndex is the index of the last entry that is applied here.
func (r *Raft) AppliedIndex() uint64 { return r.raft.AppliedIndex() }

// LastTerm is the term of the newest entry in the log.
func (r *Raft) LastTerm() uint64 {
	term, _ := strconv.ParseUint(r.raft.Stats()["last_log_term"], 10, 64)
	return term
}

// alone reports whether this server is the only voter.
func (r *Raft) alone() bool {
	f := r.raft.GetConfiguration()
	if f.Error() != nil {
		return false
	}
	voters, own := 0, false
	for _, s := range f.Configuration().Servers {
		if s.Suffrage == raft.Voter {
			voters++
			own = own || s.ID == raft.ServerID(r.id)
		}
	}
	return own && voters == 1
}

// stand makes this server a candidate now, where waiting for another leader makes no sense. When
// that fails it stands after the heartbeat timeout, as always.
func (r *Raft) stand() {
	r.standing.Lock() // a second request would make a leader stand again
	defer r.standing.Unlock()
	if r.raft.State() != raft.Follower {
		return
	}
	here := r.transport.LocalAddr()
	req := &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{
		ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(r.id), Addr: r.transport.EncodePeer(raft.ServerID(r.id), here),
	}}
	if err := r.transport.TimeoutNow(raft.ServerID(r.id), here, req, &raft.TimeoutNowResponse{}); err != nil {
		r.log.Debug("no early candidacy", "error", err)
	}
}

// unknownOutcome is the error when leadership was lost while an entry was being committed: the next leader may
// have it or not.
func unknownOutcome(err error) error {
	return fault.New(fault.Unavailable, "the outcome is unknown: %w", err)
}
