package consensus

import (
	"context"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/fsm/archive"
)

// mark writes that a restore begins or has ended, while other commands are refused.
func (r *Raft) mark(ctx context.Context, begin bool) error {
	b, err := fsm.EncodeEntry(&fsm.RestoreMark{Begin: begin}, r.now(), r.id)
	if err != nil {
		return err
	}
	return r.await(ctx, r.raft.ApplyLog(raft.Log{Data: b}, enqueueTimeout))
}

// finishRestore ends a restore that another leader began, or this one in an earlier term: servers may have two different
// histories, see DESIGN.md. A server with the other history gets the state of this server.
func (r *Raft) finishRestore(ctx context.Context) error {
	if !r.state.Read().Restoring() {
		return nil
	}
	r.log.Warn("found an unfinished restore: all servers get the state of this server")
	if err := r.shut(ctx); err != nil {
		return fmt.Errorf("end a restore: %w", err)
	}
	defer r.open()
	tx := r.state.Read()
	f, size, err := archive.Spool(ctx, r.scratch, tx)
	if err != nil {
		return fmt.Errorf("end a restore: %w", err)
	}
	defer f.Close()
	meta := &raft.SnapshotMeta{Version: raft.SnapshotVersionMax, Index: tx.Index(), Term: r.raft.CurrentTerm(), Size: size}
	if err := classify(r.raft.Restore(meta, io.NopCloser(f), restoreTimeout)); err != nil {
		return fmt.Errorf("end a restore: %w", err)
	}
	return r.mark(ctx, false)
}
