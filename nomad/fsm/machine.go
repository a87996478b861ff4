package fsm

import (
	"fmt"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// machine applies log entries to the state.
type machine struct {
	state    *state.Store
	registry *Registry
	log      hclog.Logger

	mu     sync.Mutex
	err    error
	failed chan struct{}
}

func newMachine(s *state.Store, r *Registry, log hclog.Logger) *machine {
	return &machine{state: s, registry: r, log: log, failed: make(chan struct{})}
}

// applied is the answer to the proposer.
type applied struct {
	value any
	err   error
}

// apply applies one entry. After the first entry that must not be skipped it applies nothing more.
func (m *machine) apply(index uint64, b []byte) applied {
	if err := m.failure(); err != nil {
		return applied{err: err}
	}
	e, err := decodeEntry(b)
	if err != nil {
		return applied{err: m.fail(fmt.Errorf("log entry %d: %w", index, err))}
	}
	cmd := m.registry.New(e.kind)
	if cmd == nil && e.kind >= KindSkippable {
		m.log.Debug("skipped a command of an unknown kind", "kind", e.kind, "index", index)
		return applied{err: fault.New(fault.Unimplemented, "command kind %d is unknown", e.kind)}
	}
	if cmd == nil {
		return applied{err: m.fail(fault.New(fault.Unimplemented,
			"log entry %d has the unknown command kind %d: a newer version of the program wrote it", index, e.kind))}
	}
	if rest, err := cmd.UnmarshalMsg(e.body); err != nil || len(rest) > 0 {
		return applied{err: m.fail(fault.New(fault.Internal, "decode log entry %d, command kind %d (%d bytes left): %v", index, e.kind, len(rest), err))}
	}
	return m.run(index, e, cmd)
}

func (m *machine) run(index uint64, e entry, cmd Command) (done applied) {
	tx := m.state.Write(index, e.time)
	committed := false
	defer func() {
		if r := recover(); r != nil {
			done = applied{err: m.fail(fault.New(fault.Internal, "command kind %d at index %d panicked: %v", e.kind, index, r))}
		}
		if !committed {
			tx.Abort()
		}
	}()
	value, err := cmd.Apply(tx)
	if err != nil {
		return applied{err: err}
	}
	if err := understood(tx); err != nil {
		return applied{err: m.fail(fmt.Errorf("log entry %d: %w", index, err))}
	}
	committed = true
	tx.Commit()
	return applied{value: value}
}

// fail stops the machine for good.
func (m *machine) fail(err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		m.err = err
		m.log.Error("the state machine stopped; the server must end", "error", err)
		close(m.failed)
	}
	return m.err
}

func (m *machine) failure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}
