package member

import (
	"context"
	"fmt"
	"time"
)

const (
	transferTimeout = 3 * time.Second
	// removalTimeout bounds the wait for the others to take this server out of the Raft peers.
	removalTimeout = 5 * time.Second
	removalPoll    = 50 * time.Millisecond
)

// Leave removes this server from the cluster permanently: it transfers the leadership, announces that it leaves, and waits
// until the others have removed it.
func (m *Members) Leave(ctx context.Context) error {
	peers, err := m.peers()
	if err != nil {
		return err
	}
	m.log.Info("leaving the other servers", "raft_peers", len(peers))
	m.mu.Lock()
	m.leaving = true
	m.mu.Unlock()
	if m.conf.Raft.IsLeader() && len(peers) > 1 {
		bounded, cancel := context.WithTimeout(ctx, transferTimeout)
		err := m.conf.Raft.TransferLeadership(bounded, "", "")
		cancel()
		if err != nil {
			m.log.Warn("no other server took over the leadership", "error", err)
		}
	}
	if m.pool == nil {
		return nil
	}
	if err := m.announceLeave(ctx); err != nil {
		return err
	}
	if len(peers) > 1 {
		m.removed(ctx)
	}
	return nil
}

func (m *Members) announceLeave(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- m.pool.Leave() }() // bounded by the library's own timeouts
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("leave gossip: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("leave gossip: %w", ctx.Err())
	}
}

// removed waits until this server is no longer a Raft peer, at most removalTimeout. The server may never see the
// removal, because the leader no longer sends it the log.
func (m *Members) removed(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, removalTimeout)
	defer cancel()
	for {
		peers, err := m.peers()
		if err != nil || peers[m.conf.ID] == nil {
			return
		}
		if !await(ctx, nil, removalPoll) {
			m.log.Info("stopping before the removal was confirmed")
			return
		}
	}
}
