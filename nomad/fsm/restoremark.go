package fsm

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/hashicorp/raft"
	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/nomad/state"
)

// RestoreMark records that a restore begins or has ended. A leader that finds a begun restore gives its own state to all servers.
type RestoreMark struct {
	Begin bool
}

// Kind implements [Command].
func (*RestoreMark) Kind() Kind { return KindRestoreMark }

// Apply stores the mark.
func (c *RestoreMark) Apply(tx *state.Txn) (any, error) {
	tx.PutRestoring(c.Begin)
	return nil, nil
}

// MarshalMsg implements [msgp.Marshaler].
func (c *RestoreMark) MarshalMsg(b []byte) ([]byte, error) {
	return msgp.AppendBool(msgp.AppendString(msgp.AppendMapHeader(b, 1), "Begin"), c.Begin), nil
}

// UnmarshalMsg implements [msgp.Unmarshaler]; fields of later versions are skipped.
func (c *RestoreMark) UnmarshalMsg(b []byte) (rest []byte, err error) {
	fields, b, err := msgp.ReadMapHeaderBytes(b)
	for ; err == nil && fields > 0; fields-- {
		var name string
		if name, b, err = msgp.ReadStringBytes(b); err != nil {
			break
		}
		if name == "Begin" {
			c.Begin, b, err = msgp.ReadBoolBytes(b)
		} else {
			b, err = msgp.Skip(b)
		}
	}
	return b, err
}

// mark writes that a restore begins or has ended, while other commands are refused.
func (r *Raft) mark(ctx context.Context, begin bool) error {
	b, err := encodeEntry(&RestoreMark{Begin: begin}, r.now(), r.id)
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
	f, err := os.CreateTemp(r.scratch, "restore-*")
	if err != nil {
		return fmt.Errorf("end a restore: %w", err)
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return fmt.Errorf("end a restore: %w", err)
	}
	var size counter
	tx := r.state.Read()
	if err := tx.Dump(io.MultiWriter(guarded{ctx, f}, &size)); err != nil {
		return fmt.Errorf("end a restore: %w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("end a restore: %w", err)
	}
	meta := &raft.SnapshotMeta{Version: raft.SnapshotVersionMax, Index: tx.Index(), Term: r.raft.CurrentTerm(), Size: int64(size)}
	if err := classify(r.raft.Restore(meta, io.NopCloser(f), restoreTimeout)); err != nil {
		return fmt.Errorf("end a restore: %w", err)
	}
	return r.mark(ctx, false)
}
