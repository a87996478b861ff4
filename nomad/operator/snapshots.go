package operator

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm/archive"
)

// Archive saves and restores the whole state.
type Archive interface {
	SaveArchive(ctx context.Context, w io.Writer, redacted bool) (archive.Meta, error)
	RestoreArchive(ctx context.Context, r io.Reader, force bool) error
}

// Bounds of snapshots on their way: they go in pieces, and a file holds what was not fetched or not
// all sent yet.
const (
	transfersMax = 2
	transferIdle = time.Minute
)

// transfers are the snapshots that are being fetched or sent.
type transfers struct {
	mu   sync.Mutex
	open map[string]*transfer
}

type transfer struct {
	mu     sync.Mutex
	file   *os.File
	size   int64
	digest string
	idle   *time.Timer
}

// begin makes an empty unnamed file, which the kernel deletes when it is closed.
func (t *transfers) begin(dir string) (string, *transfer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.open) >= transfersMax {
		return "", nil, fault.New(fault.Exhausted, "%d snapshots are on their way already: try again in a minute", len(t.open))
	}
	f, err := os.CreateTemp(dir, "snapshot-*")
	if err != nil {
		return "", nil, fmt.Errorf("keep snapshot: %w", err)
	}
	_ = os.Remove(f.Name())
	id, x := uuid.NewString(), &transfer{file: f}
	x.idle = time.AfterFunc(transferIdle, func() { t.end(id) })
	if t.open == nil {
		t.open = map[string]*transfer{}
	}
	t.open[id] = x
	return id, x, nil
}

func (t *transfers) find(id string) (*transfer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.open[id]
	if x == nil {
		return nil, fault.New(fault.Invalid, "the snapshot was dropped: its pieces came too slowly, or the leader changed; begin again")
	}
	x.idle.Reset(transferIdle)
	return x, nil
}

func (t *transfers) end(id string) {
	t.mu.Lock()
	x := t.open[id]
	delete(t.open, id)
	t.mu.Unlock()
	if x != nil {
		x.idle.Stop()
		x.mu.Lock()
		defer x.mu.Unlock()
		_ = x.file.Close()
	}
}

// ReadSnapshot makes a snapshot, and hands it out piece by piece.
func (s *Service) ReadSnapshot(ctx context.Context, r *api.SnapshotReadRequest) (*api.SnapshotReadResponse, error) {
	id := r.Token
	if r.Offset < 0 || id == "" && r.Offset > 0 {
		return nil, fault.New(fault.Invalid, "a snapshot has no byte %d", r.Offset)
	}
	if id == "" {
		made, err := s.makeSnapshot(ctx, r.Redact)
		if err != nil {
			return nil, err
		}
		id = made
	}
	x, err := s.reading.find(id)
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if r.Offset > x.size {
		return nil, fault.New(fault.Invalid, "the snapshot has %d bytes, and none at %d", x.size, r.Offset)
	}
	piece := make([]byte, api.PieceMax)
	n, err := x.file.ReadAt(piece, r.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	out := &api.SnapshotReadResponse{Token: id, Size: x.size, Digest: x.digest, Data: piece[:n], EOF: r.Offset+int64(n) >= x.size}
	if out.EOF {
		go s.reading.end(id)
	}
	return out, nil
}

func (s *Service) makeSnapshot(ctx context.Context, redact bool) (string, error) {
	id, x, err := s.reading.begin(s.dir)
	if err != nil {
		return "", err
	}
	x.idle.Stop() // no client reads pieces while the snapshot is made
	x.mu.Lock()
	defer x.mu.Unlock()
	sum := sha256.New()
	if _, err = s.archive.SaveArchive(ctx, io.MultiWriter(x.file, sum), redact); err == nil {
		x.size, err = x.file.Seek(0, io.SeekCurrent)
	}
	if err != nil {
		go s.reading.end(id)
		return "", err
	}
	x.digest = base64.StdEncoding.EncodeToString(sum.Sum(nil))
	x.idle.Reset(transferIdle)
	return id, nil
}

// fits refuses a piece that would make the snapshot larger than any may be, or than the disk has room for: to be
// restored it needs as much again, and the log is on the same disk.
func (s *Service) fits(x *transfer, more int64) error {
	if x.size+more > s.snapshotMax {
		return fault.New(fault.TooLarge, "the snapshot is larger than %d bytes, the most that can be restored", s.snapshotMax)
	}
	free, err := s.freeBytes(x.file)
	if err != nil {
		return fmt.Errorf("look for room for the snapshot: %w", err)
	}
	if free < x.size+2*more {
		return fault.New(fault.Exhausted, "the snapshot does not fit: %d bytes have come, they need as much again to be restored, and the disk has room for %d more", x.size, free)
	}
	return nil
}

// freeBytes is how many bytes the file system of a file has left for all users.
func freeBytes(f *os.File) (int64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Fstatfs(int(f.Fd()), &fs); err != nil {
		return 0, err
	}
	return int64(fs.Bavail) * fs.Bsize, nil
}

// RestoreSnapshot takes a snapshot in piece by piece; after the last one it is checked whole, and restored.
func (s *Service) RestoreSnapshot(ctx context.Context, r *api.SnapshotRestoreRequest) (*api.SnapshotRestoreResponse, error) {
	id := r.Token
	if id == "" {
		begun, _, err := s.writing.begin(s.dir)
		if err != nil {
			return nil, err
		}
		id = begun
	}
	x, err := s.writing.find(id)
	if err != nil {
		return nil, err
	}
	out, over, err := s.take(ctx, x, r)
	if over {
		s.writing.end(id)
	}
	if err != nil {
		return nil, err
	}
	out.Token = id
	return out, nil
}

// take adds a piece, and restores the snapshot after the last one. It returns over when the transfer has ended.
func (s *Service) take(ctx context.Context, x *transfer, r *api.SnapshotRestoreRequest) (out *api.SnapshotRestoreResponse, over bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if r.Offset != x.size {
		return nil, false, fault.New(fault.Invalid, "snapshot: a piece for byte %d came when byte %d was due", r.Offset, x.size)
	}
	if err := s.fits(x, int64(len(r.Data))); err != nil {
		return nil, true, err
	}
	n, err := x.file.Write(r.Data)
	x.size += int64(n)
	if err != nil {
		return nil, true, fmt.Errorf("keep snapshot: %w", err)
	}
	out = &api.SnapshotRestoreResponse{}
	if !r.Last {
		return out, false, nil
	}
	if _, err := x.file.Seek(0, io.SeekStart); err != nil {
		return nil, true, fmt.Errorf("keep snapshot: %w", err)
	}
	was := s.state.Read().ClusterID()
	if err := s.archive.RestoreArchive(ctx, x.file, r.Force); err != nil {
		return nil, true, err
	}
	if now := s.state.Read().ClusterID(); was != "" && now != was {
		out.Warnings = fmt.Sprintf("the snapshot is of another cluster, %s: this one was %s and goes by that name now; "+
			"never let servers of both meet, and keep the nodes of the other away", now, was)
	}
	out.Index = s.state.Read().Index()
	return out, true, nil
}
