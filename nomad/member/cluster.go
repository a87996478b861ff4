package member

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func (m *Members) nameFile() string { return filepath.Join(m.conf.Dir, "cluster_id") }

// readName reads which cluster the log on disk belongs to: the state has it only after a leader
// has announced how much of the log is committed.
func (m *Members) readName() error {
	if m.conf.Dir == "" {
		return nil
	}
	body, err := os.ReadFile(m.nameFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cluster id: %w", err)
	}
	m.named = strings.TrimSpace(string(body))
	return nil
}

// keepName stores the name of the cluster whenever it changes in the log.
func (m *Members) keepName(ctx context.Context) error {
	for {
		m.mu.Lock()
		named := m.named
		m.mu.Unlock()
		id := ""
		err := state.Until(ctx, m.conf.State, []state.Key{state.TableKey(state.TableCluster)}, func(tx *state.Txn) bool {
			id = tx.ClusterID()
			return id != "" && id != named
		})
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("follow the cluster's name: %w", err)
		}
		if named != "" {
			m.log.Warn("a snapshot of another cluster was restored: this one goes by its name now; never let servers of both meet", "cluster", id, "was", named)
		}
		if m.conf.Dir != "" {
			if err := os.WriteFile(m.nameFile(), []byte(id+"\n"), 0o600); err != nil {
				return fmt.Errorf("cluster id: %w", err)
			}
		}
		m.mu.Lock()
		m.named = id
		m.mu.Unlock()
	}
}

// cluster names the cluster that this server's log belongs to; empty when it has none.
func (m *Members) cluster() string {
	if id := m.conf.State.Read().ClusterID(); id != "" {
		return id
	}
	if had, err := m.conf.Raft.Bootstrapped(); err != nil || !had {
		return ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.named
}

// name gives the cluster its name when it has none.
func (m *Members) name(ctx context.Context) error {
	if m.conf.State.Read().ClusterID() != "" {
		return nil
	}
	if _, err := m.conf.Raft.Propose(ctx, &NameCluster{ID: uuid.NewString()}); err != nil {
		return fmt.Errorf("name the cluster: %w", err)
	}
	return nil
}

// meet asks each new server of the region for its cluster, so that both sides log why a server with
// another cluster's log is not added.
func (m *Members) meet(ctx context.Context) {
	met := map[string]bool{}
	for {
		news, pause := m.news(), reconcileEvery
		for _, s := range m.servers(m.conf.Region) {
			if s.id == m.conf.ID || s.status != statusAlive || met[s.id] {
				continue
			}
			if info, err := m.ask(ctx, s); err == nil && info.ID == s.id && info.Cluster != "" && m.cluster() != "" {
				met[s.id] = true
				m.foreign(s, info)
			} else {
				pause = tick
			}
		}
		if !await(ctx, news, pause) {
			return
		}
	}
}

// foreign reports whether a server holds the log of another cluster, and logs that once.
func (m *Members) foreign(s server, info *api.PeerInfoResponse) bool {
	own := m.cluster()
	if info.Cluster == "" || own == "" || info.Cluster == own {
		return false
	}
	m.once("foreign "+s.id, "a server of this region belongs to another cluster; neither takes the other in: "+
		"to make it join, stop it, move its data directory away, set its bootstrap_expect to that of this cluster, and start it again",
		"server", s.name, "rpc", s.rpc, "its_cluster", info.Cluster, "our_cluster", own)
	return true
}
