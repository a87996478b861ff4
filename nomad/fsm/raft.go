package fsm

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/nomad/state"
)

var _ raft.BatchingFSM = (*Machine)(nil)

// Apply applies one entry of the log and returns an [Applied]. It implements [raft.FSM].
func (m *Machine) Apply(l *raft.Log) any {
	if l.Type != raft.LogCommand {
		return nil
	}
	return m.apply(l.Index, l.Data)
}

// ApplyBatch implements [raft.BatchingFSM].
func (m *Machine) ApplyBatch(logs []*raft.Log) []any {
	out := make([]any, len(logs))
	for i, l := range logs {
		out[i] = m.Apply(l)
	}
	return out
}

// Snapshot implements [raft.FSM].
func (m *Machine) Snapshot() (raft.FSMSnapshot, error) {
	if err := m.Failure(); err != nil {
		return nil, err
	}
	return snapshot{m.state.Read(), m.Metrics}, nil
}

// Restore puts a snapshot in the place of the state; after an error the machine stops. It implements [raft.FSM].
func (m *Machine) Restore(r io.ReadCloser) error {
	defer r.Close()
	if err := m.Load(r); err != nil {
		return m.fail(fmt.Errorf("restore snapshot: %w", err))
	}
	return nil
}

// snapshot is the state at one index; it needs no release.
type snapshot struct {
	tx      *state.Txn
	metrics *metrics.Recorder
}

func (s snapshot) Persist(sink raft.SnapshotSink) error {
	defer s.metrics.Since(metricPersist, time.Now())
	w := bufio.NewWriterSize(sink, 1<<20)
	err := s.tx.Dump(w)
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		_ = sink.Cancel()
		return fmt.Errorf("write snapshot: %w", err)
	}
	return sink.Close()
}

func (s snapshot) Release() {}

// Load reads a snapshot into the state. The state is as before after an error.
func (m *Machine) Load(r io.Reader) error {
	err := m.state.Restore(bufio.NewReaderSize(r, 1<<20), MinVersion)
	if err == nil && m.Observer != nil {
		m.Observer.Restored(m.state.Read().Index())
	}
	return err
}
