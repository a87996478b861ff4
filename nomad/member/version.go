package member

import (
	"context"
	"fmt"
	"strconv"

	"github.com/open-nomad/open-nomad/nomad/fsm"
)

// versionOf reads the version of the log's language from a server's tag; 1 when it does not say.
func versionOf(tag string) uint64 {
	v, err := strconv.ParseUint(tag, 10, 32)
	if err != nil || v == 0 {
		return 1
	}
	return v
}

// agree raises the version of the log to what all Raft peers say themselves that they understand. A peer that does
// not answer keeps it where it is.
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

// tooOld reports, once, a server that would not understand what the others write.
func (m *Members) tooOld(s server) bool {
	agreed := m.conf.State.Read().AgreedVersion()
	if s.version >= agreed {
		return false
	}
	m.once("old "+s.id, "a server is too old for this cluster: it is not taken in, start a newer program there",
		"server", s.name, "its_version", s.version, "agreed_version", agreed)
	return true
}
