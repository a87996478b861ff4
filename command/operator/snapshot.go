package operator

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/agent/archive"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

const (
	// smallMax bounds the files of an archive other than the state.
	smallMax = 1 << 20
	// snapshotFormat and snapshotVersion are the values in the description of a readable archive.
	snapshotFormat  = "open-nomad snapshot"
	snapshotVersion = 1
)

// SnapshotSave is "nomad operator snapshot save".
func SnapshotSave(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "save the state of the servers to a file", Args: "[<file>]", Max: 1,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "stale", Usage: "allow any server to respond; the result may be stale"},
			&cli.BoolFlag{Name: "redact", Usage: "omit secrets; the file is for inspection and cannot be restored"},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			path := s.Arg(0)
			if path == "" {
				path = "nomad-state-" + time.Now().UTC().Format("20060102-150405") + ".snap"
			}
			if err := save(ctx, s, path); err != nil {
				return err
			}
			s.Printf("State file written to %s\n", path)
			return nil
		},
	}.Command()
}

// save writes to a temporary file next to the target, checks its content and renames it.
func save(ctx context.Context, s *session.Session, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fault.New(fault.Conflict, "%s already exists: choose another name", path)
	}
	part := path + ".unverified"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("save snapshot: %w", err)
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(part)
	}()
	live := s.Live("Saving the snapshot")
	err = s.SaveSnapshot(ctx, s.Bool("stale"), s.Bool("redact"), f)
	live.End()
	if err != nil {
		return session.Failed("saving snapshot", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("save snapshot: %w", err)
	}
	m, err := describe(f)
	if err != nil {
		return fmt.Errorf("the snapshot is incomplete, try again: %w", err)
	}
	if s.Bool("redact") && !m.Redacted {
		return fault.New(fault.Unimplemented, "the server does not support snapshots without secrets")
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("save snapshot: %w", err)
	}
	return os.Rename(part, path)
}

// SnapshotRestore is "nomad operator snapshot restore".
func SnapshotRestore(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "replace the state of the servers with a snapshot", Args: "<file>", Min: 1, Max: 1,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "force", Usage: "restore although external volumes are attached: they wait until every node has reported its mounts"},
		},
		Run: func(ctx context.Context, s *session.Session) error {
			f, err := os.Open(s.Arg(0))
			if err != nil {
				return fmt.Errorf("restore snapshot: %w", err)
			}
			defer f.Close()
			live := s.Live("Restoring the snapshot")
			warnings, err := s.RestoreSnapshot(ctx, s.Bool("force"), f)
			live.End()
			if err != nil {
				return session.Failed("restoring snapshot", err)
			}
			s.Println("Snapshot Restored")
			if warnings != "" {
				s.Println("Warning:", warnings)
			}
			return nil
		},
	}.Command()
}

// SnapshotInspect is "nomad operator snapshot inspect".
func SnapshotInspect(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "verify a snapshot and show its metadata", Args: "<file>", Min: 1, Max: 1, Format: true,
		Run: func(_ context.Context, s *session.Session) error {
			f, err := os.Open(s.Arg(0))
			if err != nil {
				return fmt.Errorf("inspect snapshot: %w", err)
			}
			defer f.Close()
			m, err := describe(f)
			if err != nil {
				return fmt.Errorf("snapshot %s: %w", s.Arg(0), err)
			}
			if s.Formatted() {
				return s.Document(m)
			}
			s.Print(view.Pairs(
				[2]string{"Created", m.Created.Format(time.RFC3339)}, [2]string{"ID", m.ID}, [2]string{"Size", view.Bytes(m.Size)},
				[2]string{"Index", strconv.FormatUint(m.Index, 10)}, [2]string{"Term", strconv.FormatUint(m.Term, 10)},
				[2]string{"Version", strconv.Itoa(m.Version)}, [2]string{"Servers", strconv.Itoa(len(m.Configuration))}, [2]string{"Redacted", strconv.FormatBool(m.Redacted)}))
			return nil
		},
	}.Command()
}

// SnapshotRedact is "nomad operator snapshot redact".
func SnapshotRedact(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "remove the secrets from a snapshot; the file can then be inspected but not restored",
		Args: "<file>", Min: 1, Max: 1, Offline: true,
		Run: func(ctx context.Context, s *session.Session) error {
			if err := archive.Redact(ctx, s.Arg(0)); err != nil {
				return err
			}
			s.Printf("Removed the secrets from snapshot %s\n", s.Arg(0))
			return nil
		},
	}.Command()
}

// description is the metadata of an archive.
type description struct {
	Format        string
	Version       int
	ID            string
	Index, Term   uint64
	Size          int64
	Redacted      bool
	Created       time.Time
	Configuration []*api.RaftServer
}

// describe reads an archive whole and compares its checksums.
func describe(r io.Reader) (*description, error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return nil, fault.New(fault.Invalid, "not a snapshot: %w", err)
	}
	pack, m, found := tar.NewReader(zip), new(description), map[string]string{}
	for {
		head, err := pack.Next()
		if errors.Is(err, io.EOF) {
			return nil, fault.New(fault.Invalid, "the snapshot is truncated: it has no checksums")
		}
		if err != nil {
			return nil, fault.New(fault.Invalid, "the snapshot is damaged: %w", err)
		}
		if head.Name == "SHA256SUMS" {
			if err := compare(pack, found); err != nil {
				return nil, err
			}
			if err := ended(pack, zip); err != nil {
				return nil, err
			}
			return m, m.readable()
		}
		sum := sha256.New()
		if head.Name == "meta.json" {
			err = json.NewDecoder(io.TeeReader(io.LimitReader(pack, smallMax), sum)).Decode(m)
		}
		if err == nil {
			_, err = io.Copy(sum, pack)
		}
		if err != nil {
			return nil, fault.New(fault.Invalid, "the snapshot is damaged: %s: %w", head.Name, err)
		}
		found[head.Name] = hex.EncodeToString(sum.Sum(nil))
	}
}

// readable refuses what other programs, or newer ones, wrote.
func (m *description) readable() error {
	switch {
	case m.Format != snapshotFormat:
		return fault.New(fault.Invalid, "not a snapshot of this program: the format is %q", m.Format)
	case m.Version != snapshotVersion:
		return fault.New(fault.Invalid, "the snapshot has version %d; this program reads version %d", m.Version, snapshotVersion)
	}
	return nil
}

// ended reads to the end, where gzip keeps its own checksum.
func ended(pack *tar.Reader, zip io.Reader) error {
	head, err := pack.Next()
	if err == nil {
		return fault.New(fault.Invalid, "the snapshot is damaged: it holds %q after its checksums", head.Name)
	}
	if errors.Is(err, io.EOF) {
		_, err = io.Copy(io.Discard, zip)
	}
	if err != nil {
		return fault.New(fault.Invalid, "the snapshot is truncated: %w", err)
	}
	return nil
}

func compare(sums io.Reader, found map[string]string) error {
	body, err := io.ReadAll(io.LimitReader(sums, smallMax))
	if err != nil {
		return fault.New(fault.Invalid, "the snapshot is damaged: %w", err)
	}
	lines := strings.Fields(string(body))
	if len(lines) != 2*len(found) || len(found) < 2 {
		return fault.New(fault.Invalid, "the snapshot is damaged: %d checksums for %d files", len(lines)/2, len(found))
	}
	for i := 0; i < len(lines); i += 2 {
		if found[lines[i+1]] != lines[i] {
			return fault.New(fault.Invalid, "the snapshot is damaged: the checksum of %s does not match", lines[i+1])
		}
	}
	return nil
}
