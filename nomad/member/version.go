package member

import (
	"context"
	"fmt"
	"strconv"

	"github.com/open-nomad/open-nomad/nomad/fsm"
)

// versionOf reads the version of the log from the tag of a server; 1 without a valid tag.
func versionOf(tag string) uint64 {
	v, err := strconv.ParseUint(tag, 10, 32)
	if err != nil || v == 0 {
		return 1
	}
	return v
}

// agree raises the version of the log to the newest that all Raft peers report. The version stays when a peer
// does not reply.
func (m *Members) agree(ctx context.Context) error {
	agreed := m.conf.State.Read().AgreedVersion()
	if fsm.Version <= agreed {
		return nil
	}
	peers, err := m.peers()
	if err != nil {
		return err
	}
	version := fsm.Version
	for id, p := range peers {
		if id == m.conf.ID {
			continue
		}
		info, err := m.ask(ctx, server{rpc: p.Address})
		if err != nil || info.ID != id {
			return nil //nolint:nilerr // asked again at the next look
		}
		version = min(version, max(1, info.Version))
	}
	if version <= agreed {
		return nil
	}
	m.log.Info("all servers understand a newer version of the log", "version", version)
	if _, err := m.conf.Raft.Propose(ctx, &AgreeVersion{Version: version}); err != nil {
		return fmt.Errorf("agree on version %d: %w", version, err)
	}
	return nil
}

// tooOld reports whether a server is older than the agreed version, and logs that once.
func (m *Members) tooOld(s server) bool {
	agreed := m.conf.State.Read().AgreedVersion()
	if s.version >= agreed {
		return false
	}
	m.once("old "+s.id, "a server is too old for this cluster and is not added: start a newer program there",
		"server", s.name, "its_version", s.version, "agreed_version", agreed)
	return true
}
