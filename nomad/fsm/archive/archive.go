package archive

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

	"github.com/klauspost/compress/gzip"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Names of the files, and the format in the description.
const (
	metaName  = "meta.json"
	stateName = "state.bin"
	sumsName  = "SHA256SUMS"

	formatName    = "open-nomad snapshot"
	formatVersion = 1
)

// smallBytes limits the files of an archive other than the state.
const smallBytes = 1 << 20

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

// Write writes the state of a transaction as an archive; it sets the format and the size in m. It dumps twice, first to
// learn the size that stands before the bytes: no second copy of the state lies in memory or on disk.
func Write(ctx context.Context, w io.Writer, m *Meta, tx *state.Txn) error {
	m.Format, m.Version = formatName, formatVersion
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
	if err := add(metaName, int64(len(head)), func(w io.Writer) error { _, err := w.Write(head); return err }); err != nil {
		return err
	}
	sums := sumLine(sum.Sum(nil), metaName)
	if err := add(stateName, m.Size, dump); err != nil {
		return err
	}
	sums += sumLine(sum.Sum(nil), stateName)
	if err := add(sumsName, int64(len(sums)), func(w io.Writer) error { _, err := io.WriteString(w, sums); return err }); err != nil {
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

// Inspect checks a whole archive and describes it.
func Inspect(ctx context.Context, rd io.Reader) (Meta, error) {
	m, _, err := Load(ctx, rd)
	return m, err
}

// Redact copies an archive without the secrets of nodes and volumes. The archive is checked whole
// before anything is written.
func Redact(ctx context.Context, rd io.Reader, w io.Writer) error {
	m, s, err := Load(ctx, rd)
	if err != nil {
		return err
	}
	m.Redacted = true
	return Write(ctx, w, &m, s.Read())
}

// Spool writes the state to a file in dir that has no name any more, or in the system's place for such files when dir is
// empty. It returns the file, to be read from its start, and its size.
func Spool(ctx context.Context, dir string, tx *state.Txn) (_ *os.File, size int64, err error) {
	f, err := os.CreateTemp(dir, "restore-*")
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	if err := os.Remove(f.Name()); err != nil {
		return nil, 0, err
	}
	var n counter
	if err := tx.Dump(io.MultiWriter(guarded{ctx, f}, &n)); err != nil {
		return nil, 0, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, int64(n), err
}

// Load reads an archive into a store of its own.
func Load(ctx context.Context, rd io.Reader) (Meta, *state.Store, error) {
	s := state.New()
	pipe, feed := io.Pipe()
	decoded := make(chan error, 1)
	go func() {
		err := s.Restore(pipe, fsm.MinVersion)
		_, _ = io.Copy(io.Discard, pipe)
		decoded <- err
	}()
	m, err := read(io.TeeReader(rd, guarded{ctx, io.Discard}), feed)
	_ = feed.Close()
	switch bad := <-decoded; {
	case err != nil || bad == nil:
	case errors.Is(bad, fault.Unimplemented):
		err = fmt.Errorf("the snapshot is of a newer cluster: %w", bad)
	default:
		err = broken("%s: %w", stateName, bad)
	}
	if err != nil {
		return Meta{}, nil, err
	}
	return m, s, nil
}

func broken(format string, args ...any) error {
	return fault.New(fault.Invalid, "the snapshot is broken or cut: %w", fmt.Errorf(format, args...))
}

// read checks form and checksums of an archive and copies its state to w.
func read(rd io.Reader, w io.Writer) (Meta, error) {
	zip, err := gzip.NewReader(rd)
	if err != nil {
		return Meta{}, fault.New(fault.Invalid, "this is not a snapshot: %w", err)
	}
	pack := tar.NewReader(zip)
	var head bytes.Buffer
	sum, err := unpack(pack, metaName, smallBytes, &head)
	if err != nil {
		return Meta{}, err
	}
	var m Meta
	if err := json.Unmarshal(head.Bytes(), &m); err != nil || m.Format != formatName {
		return Meta{}, fault.New(fault.Invalid, "this is not a snapshot of this program: %s has format %q", metaName, m.Format)
	}
	if m.Version != formatVersion {
		return Meta{}, fault.New(fault.Invalid, "the snapshot has version %d; this program reads version %d", m.Version, formatVersion)
	}
	want := sumLine(sum, metaName)
	if sum, err = unpack(pack, stateName, m.Size, w); err != nil {
		return Meta{}, err
	}
	want += sumLine(sum, stateName)
	var sums bytes.Buffer
	if _, err := unpack(pack, sumsName, smallBytes, &sums); err != nil {
		return Meta{}, err
	}
	if sums.String() != want {
		return Meta{}, broken("the checksums of %s do not match", sumsName)
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
	if h.Size > limit || (name == stateName && h.Size != limit) {
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
	if n, err := io.Copy(io.Discard, zip); err != nil || n > smallBytes {
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
