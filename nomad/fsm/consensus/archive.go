package consensus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm/archive"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// restoreTimeout limits how long raft takes to restore a state.
const restoreTimeout = 10 * time.Minute

// SaveArchive writes the state as this server has it, after everything that was committed before
// where it leads; redacted without secrets.
func (r *Raft) SaveArchive(ctx context.Context, w io.Writer, redacted bool) (archive.Meta, error) {
	if err := r.Failure(); err != nil {
		return archive.Meta{}, fmt.Errorf("save snapshot: %w", err)
	}
	if r.raft.State() == raft.Leader {
		if err := r.Barrier(ctx); err != nil {
			return archive.Meta{}, fmt.Errorf("save snapshot: %w", err)
		}
	}
	conf, err := r.Configuration()
	if err != nil {
		return archive.Meta{}, fmt.Errorf("save snapshot: %w", err)
	}
	tx, now := r.state.Read(), r.now()
	m := archive.Meta{
		Index: tx.Index(), Term: r.raft.CurrentTerm(), Created: now, Configuration: conf.Servers, Redacted: redacted,
	}
	m.ID = fmt.Sprintf("%d-%d-%d", m.Term, m.Index, now.UnixMilli())
	if err := archive.Write(ctx, w, &m, tx); err != nil {
		return archive.Meta{}, fmt.Errorf("save snapshot: %w", err)
	}
	return m, nil
}

// RestoreArchive replaces the state of the whole cluster by that of an archive. The archive is checked
// whole, down to a trial of reading every row, before anything changes. Only the leader can do it. Without force it is
// refused by [Config.MayRestore], on a state that no command changes meanwhile.
func (r *Raft) RestoreArchive(ctx context.Context, rd io.Reader, force bool) error {
	if !r.IsLeader() {
		return notLeader()
	}
	m, older, err := archive.Load(ctx, rd)
	if err != nil {
		return err
	}
	if m.Redacted {
		return fault.New(fault.Invalid, "the snapshot is redacted: without the secrets of nodes and volumes it is only to look at")
	}
	if err := r.shut(ctx); err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	defer r.open()
	if !force && r.mayRestore != nil {
		if err := r.mayRestore(r.state.Read()); err != nil {
			return fmt.Errorf("restore snapshot: %w", err)
		}
	}
	term := r.raft.CurrentTerm()
	if err := r.mark(ctx, true); err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	r.reconcile(older)
	f, size, err := archive.Spool(ctx, r.scratch, older.Read())
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", errors.Join(err, r.mark(context.WithoutCancel(ctx), false)))
	}
	defer f.Close()
	m.Size = size
	if r.raft.CurrentTerm() != term { // another one may have led meanwhile
		return notLeader()
	}
	return r.install(ctx, m, f)
}

// reconcile carries into the restored state what must not go back with it. The agreed version never decreases: later log
// entries depend on it, and a server that is away may still hold earlier ones.
func (r *Raft) reconcile(older *state.Store) {
	tx := older.Write(older.Read().Index(), r.now())
	if agreed := r.Agreed(); tx.AgreedVersion() < agreed {
		tx.PutAgreedVersion(agreed)
	}
	tx.PutRestoring(true) // until all servers have it
	if r.rollBack != nil {
		r.rollBack(tx, r.state.Read())
	}
	tx.Commit()
}

// shut refuses new commands and waits until the earlier ones are applied.
func (r *Raft) shut(ctx context.Context) error {
	r.writing.Lock()
	was := r.restoring
	r.restoring = true
	r.writing.Unlock()
	if was {
		return restoring()
	}
	err := r.Barrier(ctx)
	if err != nil {
		r.open()
	}
	return err
}

func (r *Raft) open() {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.restoring = false
}

func restoring() error { return fault.New(fault.Unavailable, "a snapshot is being restored") }

// install gives a state to raft.
func (r *Raft) install(ctx context.Context, m archive.Meta, dump io.Reader) error {
	defer r.renew() // also after an error the state may be another one
	meta := &raft.SnapshotMeta{Version: raft.SnapshotVersionMax, ID: m.ID, Index: m.Index, Term: m.Term, Size: m.Size}
	err := classify(r.raft.Restore(meta, io.NopCloser(dump), restoreTimeout))
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	r.log.Info("restored a snapshot", "id", m.ID, "index", m.Index, "created", m.Created)
	if err := r.mark(context.WithoutCancel(ctx), false); err != nil {
		r.log.Warn("the next leader ends the restore", "error", err)
	}
	return nil
}
