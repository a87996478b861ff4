package consensus

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/api"
)

// configLog is a log that records which of its entries contain a configuration: raft reports the newest
// configuration without its index.
type configLog struct {
	raft.LogStore

	mu sync.Mutex
	// entries maps indexes to configurations.
	entries map[uint64]raft.Configuration
}

func newConfigLog(logs raft.LogStore) *configLog {
	return &configLog{LogStore: logs, entries: map[uint64]raft.Configuration{}}
}

// IsMonotonic returns the property of the wrapped log. It implements [raft.MonotonicLogStore].
func (c *configLog) IsMonotonic() bool {
	m, ok := c.LogStore.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// GetLog reads an entry. When raft starts it reads all that no snapshot has.
func (c *configLog) GetLog(index uint64, l *raft.Log) error {
	err := c.LogStore.GetLog(index, l)
	if err == nil {
		c.note(l)
	}
	return err
}

// StoreLog writes an entry.
func (c *configLog) StoreLog(l *raft.Log) error { return c.StoreLogs([]*raft.Log{l}) }

// StoreLogs writes entries.
func (c *configLog) StoreLogs(all []*raft.Log) error {
	err := c.LogStore.StoreLogs(all)
	if err == nil {
		for _, l := range all {
			c.note(l)
		}
	}
	return err
}

// DeleteRange removes entries: old ones, or those that conflict with the log of another leader.
func (c *configLog) DeleteRange(low, high uint64) error {
	err := c.LogStore.DeleteRange(low, high)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		maps.DeleteFunc(c.entries, func(i uint64, _ raft.Configuration) bool { return i >= low && i <= high })
	}
	return err
}

func (c *configLog) note(l *raft.Log) {
	if l.Type != raft.LogConfiguration {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries[l.Index] = raft.DecodeConfiguration(l.Data)
}

// newest is the configuration with the highest index.
func (c *configLog) newest() (uint64, raft.Configuration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var index uint64
	for i := range c.entries {
		index = max(index, i)
	}
	return index, c.entries[index]
}

// Voters returns the newest voters in this server's log, and whether they are known to be committed.
func (r *Raft) Voters() (_ *api.Voters, settled bool, _ error) {
	f := r.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return nil, false, classify(err)
	}
	now := f.Configuration()
	index, conf := r.configs.newest()
	if index == 0 || !same(conf, now) {
		// It came with a snapshot, or changes at this moment.
		saved, err := r.stores.Snapshots.List()
		if err != nil {
			return nil, false, fmt.Errorf("look for raft snapshots: %w", err)
		}
		if len(saved) == 0 || saved[0].ConfigurationIndex < index || !same(saved[0].Configuration, now) {
			return nil, false, nil
		}
		index = saved[0].ConfigurationIndex
	}
	out := &api.Voters{Index: index, Servers: map[string]string{}}
	for _, s := range now.Servers {
		if s.Suffrage == raft.Voter {
			out.Servers[string(s.ID)] = string(s.Address)
		}
	}
	return out, index <= max(r.raft.CommitIndex(), r.raft.AppliedIndex()), nil
}

func same(a, b raft.Configuration) bool { return slices.Equal(a.Servers, b.Servers) }
