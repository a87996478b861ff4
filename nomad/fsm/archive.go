package fsm

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hashicorp/raft"
	"github.com/klauspost/compress/gzip"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// An archive is a gzip tar with three files in this order: the description, the state as
// [state.Txn.Dump] writes it, and the SHA-256 of both as sha256sum(1) prints them.
const (
	archiveMeta  = "meta.json"
	archiveState = "state.bin"
	archiveSums  = "SHA256SUMS"

	archiveFormat  = "open-nomad snapshot"
	archiveVersion = 1
)

// Bounds of a restore.
const (
	archiveSmall   = 1 << 20
	restoreTimeout = 10 * time.Minute
)

// Meta describes a snapshot's archive.
type Meta struct {
	// Format and Version identify the format of the archive.
	Format  string
	Version int
	ID      string
	// Index and Term are those of the last log entry that the state holds.
	Index uint64
	Term  uint64
	// Size is the length of the state in bytes.
	Size int64
	// Redacted is set when the secrets of nodes and volumes are left out. Such an archive cannot be restored.
	Redacted bool `json:",omitempty"`
	// Created is when the archive was made.
	Created time.Time
	// Configuration lists the servers of that time. A restore keeps those of its own cluster.
	Configuration []*api.RaftServer
}

// SaveArchive writes the state as this server has it, after everything that was committed before
// where it leads; redacted without secrets.
func (r *Raft) SaveArchive(ctx context.Context, w io.Writer, redacted bool) (Meta, error) {
	if err := r.Failure(); err != nil {
		return Meta{}, fmt.Errorf("save snapshot: %w", err)
	}
	if r.raft.State() == raft.Leader {
		if err := r.Barrier(ctx); err != nil {
			return Meta{}, fmt.Errorf("save snapshot: %w", err)
		}
	}
	conf, err := r.Configuration()
	if err != nil {
		return Meta{}, fmt.Errorf("save snapshot: %w", err)
	}
	tx, now := r.state.Read(), r.now()
	m := Meta{
		Format: archiveFormat, Version: archiveVersion, Index: tx.Index(), Term: r.raft.CurrentTerm(),
		Created: now, Configuration: conf.Servers, Redacted: redacted,
	}
	m.ID = fmt.Sprintf("%d-%d-%d", m.Term, m.Index, now.UnixMilli())
	if err := writeArchive(ctx, w, &m, tx); err != nil {
		return Meta{}, fmt.Errorf("save snapshot: %w", err)
	}
	return m, nil
}

// writeArchive dumps twice, first to learn the size that stands before the bytes: no second copy of
// the state lies in memory or on disk.
func writeArchive(ctx context.Context, w io.Writer, m *Meta, tx *state.Txn) error {
	dump := tx.Dump
	if m.Redacted {
		dump = tx.DumpRedacted
	}
	var size counter
	if err := dump(guarded{ctx, &size}); err != nil {
		return err
	}
	m.Size = int64(size)
	head, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	zip, err := gzip.NewWriterLevel(guarded{ctx, w}, gzip.BestSpeed)
	if err != nil {
		return err
	}
	pack := tar.NewWriter(zip)
	sum := sha256.New()
	add := func(name string, size int64, write func(io.Writer) error) error {
		if err := pack.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: m.Created}); err != nil {
			return err
		}
		sum.Reset()
		return write(io.MultiWriter(pack, sum))
	}
	if err := add(archiveMeta, int64(len(head)), func(w io.Writer) error { _, err := w.Write(head); return err }); err != nil {
		return err
	}
	sums := sumLine(sum.Sum(nil), archiveMeta)
	if err := add(archiveState, m.Size, dump); err != nil {
		return err
	}
	sums += sumLine(sum.Sum(nil), archiveState)
	if err := add(archiveSums, int64(len(sums)), func(w io.Writer) error { _, err := io.WriteString(w, sums); return err }); err != nil {
		return err
	}
	if err := pack.Close(); err != nil {
		return err
	}
	return zip.Close()
}

func sumLine(sum []byte, name string) string { return hex.EncodeToString(sum) + "  " + name + "\n" }

// counter is a writer that only counts.
type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// guarded ends a long write with its context.
type guarded struct {
	ctx context.Context
	w   io.Writer
}

func (g guarded) Write(b []byte) (int, error) {
	if err := g.ctx.Err(); err != nil {
		return 0, err
	}
	return g.w.Write(b)
}

// InspectArchive checks a whole archive and describes it.
func InspectArchive(rd io.Reader) (Meta, error) {
	m, _, err := loadArchive(rd)
	return m, err
}

// RedactArchive copies an archive without the secrets of nodes and volumes. The archive is checked whole
// before anything is written.
func RedactArchive(ctx context.Context, rd io.Reader, w io.Writer) error {
	m, s, err := loadArchive(rd)
	if err != nil {
		return err
	}
	m.Redacted = true
	return writeArchive(ctx, w, &m, s.Read())
}

// loadArchive reads an archive into a store of its own.
func loadArchive(rd io.Reader) (Meta, *state.Store, error) {
	s := state.New()
	pipe, feed := io.Pipe()
	decoded := make(chan error, 1)
	go func() {
		err := s.Restore(pipe, minVersion)
		_, _ = io.Copy(io.Discard, pipe)
		decoded <- err
	}()
	m, err := readArchive(rd, feed)
	_ = feed.Close()
	switch bad := <-decoded; {
	case err != nil || bad == nil:
	case errors.Is(bad, fault.Unimplemented):
		err = fmt.Errorf("the snapshot is of a newer cluster: %w", bad)
	default:
		err = broken("%s: %w", archiveState, bad)
	}
	if err != nil {
		return Meta{}, nil, err
	}
	return m, s, nil
}

// RestoreArchive replaces the state of the whole cluster by that of an archive. The archive is checked
// whole, down to a trial of reading every row, before anything changes. Only the leader can do it. Without force it is
// refused by [Config.MayRestore], on a state that no command changes meanwhile.
func (r *Raft) RestoreArchive(ctx context.Context, rd io.Reader, force bool) error {
	if !r.IsLeader() {
		return notLeader()
	}
	f, err := os.CreateTemp(r.scratch, "restore-*")
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	m, older, err := loadArchive(io.TeeReader(rd, guarded{ctx, io.Discard}))
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
	var size counter
	err = older.Read().Dump(io.MultiWriter(guarded{ctx, f}, &size))
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", errors.Join(err, r.mark(context.WithoutCancel(ctx), false)))
	}
	m.Size = int64(size)
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
func (r *Raft) install(ctx context.Context, m Meta, dump io.Reader) error {
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

func broken(format string, args ...any) error {
	return fault.New(fault.Invalid, "the snapshot is broken or cut: %w", fmt.Errorf(format, args...))
}

// readArchive checks form and checksums of an archive and copies its state to w.
func readArchive(rd io.Reader, w io.Writer) (Meta, error) {
	zip, err := gzip.NewReader(rd)
	if err != nil {
		return Meta{}, fault.New(fault.Invalid, "this is not a snapshot: %w", err)
	}
	pack := tar.NewReader(zip)
	var head bytes.Buffer
	sum, err := unpack(pack, archiveMeta, archiveSmall, &head)
	if err != nil {
		return Meta{}, err
	}
	var m Meta
	if err := json.Unmarshal(head.Bytes(), &m); err != nil || m.Format != archiveFormat {
		return Meta{}, fault.New(fault.Invalid, "this is not a snapshot of this program: %s has format %q", archiveMeta, m.Format)
	}
	if m.Version != archiveVersion {
		return Meta{}, fault.New(fault.Invalid, "the snapshot has version %d; this program reads version %d", m.Version, archiveVersion)
	}
	want := sumLine(sum, archiveMeta)
	if sum, err = unpack(pack, archiveState, m.Size, w); err != nil {
		return Meta{}, err
	}
	want += sumLine(sum, archiveState)
	var sums bytes.Buffer
	if _, err := unpack(pack, archiveSums, archiveSmall, &sums); err != nil {
		return Meta{}, err
	}
	if sums.String() != want {
		return Meta{}, broken("the checksums of %s do not match", archiveSums)
	}
	return m, finish(pack, zip)
}

// unpack copies the next file, which must have this name and at most this size.
func unpack(pack *tar.Reader, name string, limit int64, w io.Writer) ([]byte, error) {
	h, err := pack.Next()
	if err != nil {
		return nil, broken("look for %s: %w", name, noEOF(err))
	}
	if h.Name != name || h.Typeflag != tar.TypeReg {
		return nil, fault.New(fault.Invalid, "this is not a snapshot of this program: it holds %q where %s belongs", h.Name, name)
	}
	if h.Size > limit || (name == archiveState && h.Size != limit) {
		return nil, broken("%s has %d bytes where %d belong", name, h.Size, limit)
	}
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(sum, w), pack); err != nil {
		return nil, broken("read %s: %w", name, noEOF(err))
	}
	return sum.Sum(nil), nil
}

// finish reads to the end, where gzip keeps its own checksum.
func finish(pack *tar.Reader, zip io.Reader) error {
	if h, err := pack.Next(); err == nil {
		return broken("there is more than a snapshot in it: %q", h.Name)
	} else if err != io.EOF {
		return broken("read its end: %w", err)
	}
	if n, err := io.Copy(io.Discard, zip); err != nil || n > archiveSmall {
		return broken("read its end: %d bytes left over: %v", n, err)
	}
	return nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
