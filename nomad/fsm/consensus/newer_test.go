package consensus_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm/archive"
	"github.com/open-nomad/open-nomad/nomad/fsm/consensus"
)

// newerArchive is of a cluster whose servers agree on a version that nobody knows yet.
func newerArchive(t *testing.T) *bytes.Buffer {
	t.Helper()
	newer, s := open(t, "")
	lead(t, newer)
	propose(t, newer, "one")
	tx := s.Write(s.Read().Index()+1, time.Now())
	tx.PutAgreedVersion(99)
	tx.Commit()
	var archive bytes.Buffer
	if _, err := newer.SaveArchive(t.Context(), &archive, false); err != nil {
		t.Fatal(err)
	}
	return &archive
}

const restoreIn = "OPEN_NOMAD_TEST_RESTORE_IN"

// A refusal that comes too late ends the process: it runs in one of its own.
func TestASnapshotOfANewerClusterIsRefused(t *testing.T) {
	if dir := os.Getenv(restoreIn); dir != "" {
		archive := newerArchive(t)
		c, _ := config(t, dir)
		r, err := consensus.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = r.Lead(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil }) }()
		until(t, "it leads", r.IsLeader)
		propose(t, r, "ours")
		err = r.RestoreArchive(t.Context(), archive, true)
		if !errors.Is(err, fault.Unimplemented) || !strings.Contains(err.Error(), "version 99") || r.Failure() != nil {
			t.Errorf("restore: %v; failure: %v", err, r.Failure())
		}
		return
	}
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), restoreIn+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the server that was to restore: %v: %s", err, out)
	}
	c, s := config(t, dir)
	r, err := consensus.Open(c)
	if err != nil {
		t.Fatalf("it cannot be started again: %v", err)
	}
	defer r.Close()
	lead(t, r)
	if err := r.Barrier(t.Context()); err != nil || s.Read().Namespace("ours") == nil {
		t.Errorf("what was there before is gone: %v", err)
	}
}

func TestInspectionTellsOfANewerCluster(t *testing.T) {
	t.Parallel()
	if _, err := archive.Inspect(t.Context(), newerArchive(t)); !errors.Is(err, fault.Unimplemented) || !strings.Contains(err.Error(), "version 99") {
		t.Errorf("inspection: %v", err)
	}
}

// What the loops remember is of the state before.
func TestARestoreBeginsTheLeadersDutiesAnew(t *testing.T) {
	t.Parallel()
	r, s := open(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	begun, done := make(chan bool, 8), make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Lead(ctx, func(ctx context.Context) error {
			begun <- s.Read().Namespace("later") != nil
			<-ctx.Done()
			return nil
		})
	}()
	defer func() { cancel(); <-done }()
	<-begun
	var archive bytes.Buffer
	if _, err := r.SaveArchive(t.Context(), &archive, false); err != nil {
		t.Fatal(err)
	}
	propose(t, r, "later")
	if err := r.RestoreArchive(t.Context(), &archive, true); err != nil {
		t.Fatal(err)
	}
	if <-begun {
		t.Error("the loops began with the state of before")
	}
	if !r.IsLeader() {
		t.Error("it leads no more")
	}
}
