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

// adapter is the machine as hashicorp/raft calls it.
type adapter struct{ *machine }

var _ raft.BatchingFSM = adapter{}

func (a adapter) Apply(l *raft.Log) any {
	if l.Type != raft.LogCommand {
		return nil
	}
	return a.apply(l.Index, l.Data)
}

func (a adapter) ApplyBatch(logs []*raft.Log) []any {
	out := make([]any, len(logs))
	for i, l := range logs {
		out[i] = a.Apply(l)
	}
	return out
}

func (a adapter) Snapshot() (raft.FSMSnapshot, error) {
	if err := a.failure(); err != nil {
		return nil, err
	}
	return snapshot{a.state.Read(), a.metrics}, nil
}

func (a adapter) Restore(r io.ReadCloser) error {
	defer r.Close()
	if err := a.restore(r); err != nil {
		return a.fail(fmt.Errorf("restore snapshot: %w", err))
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
