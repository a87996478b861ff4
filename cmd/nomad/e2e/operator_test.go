package e2e

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

func TestSnapshotBringsTheWholeClusterBack(t *testing.T) {
	c := newCluster(t)
	s := c.servers[1] // whichever leads
	s.Register(kit.ShellJob("kept", "exec sleep 1000"))
	alloc := s.Running("kept", 1)
	snap, err := s.API.Operator().Snapshot(nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(snap) // the SDK compares the digest
	if err != nil {
		t.Fatal(err)
	}
	s.Register(kit.ShellJob("late", "exec sleep 1000"))
	s.Running("late", 1)
	if err := restore(s, body[:len(body)/2]); err == nil || !strings.Contains(err.Error(), "broken or cut") {
		t.Errorf("half a snapshot: %v", err)
	}
	if _, _, err := s.API.Jobs().Info("late", nil); err != nil {
		t.Errorf("a refused restore changed the state: %v", err)
	}
	if err := restore(s, body); err != nil {
		t.Fatal(err)
	}
	for _, reader := range c.servers {
		reader.Until(10*time.Second, reader.Name+" to be restored", func() error {
			if _, _, err := reader.API.Jobs().Info("kept", stale()); err != nil {
				return err
			}
			if _, _, err := reader.API.Jobs().Info("late", stale()); err == nil {
				return io.ErrUnexpectedEOF
			}
			return nil
		})
	}
	if now := s.Running("kept", 1); now.ID != alloc.ID {
		t.Errorf("allocation %s was replaced by %s", alloc.ID, now.ID)
	}
	s.Register(kit.ShellJob("after", "exec sleep 1000"))
	s.Running("after", 1)
}

func restore(s *kit.Host, body []byte) error {
	_, err := s.API.Operator().SnapshotRestore(bytes.NewReader(body), nil)
	return err
}

func TestLeadershipMovesAndPeersGo(t *testing.T) {
	c := newCluster(t)
	old := c.leader(nil)
	conf, err := old.API.Operator().RaftGetConfiguration(nil)
	if err != nil || len(conf.Servers) != 3 {
		t.Fatalf("configuration %+v %v", conf, err)
	}
	var to *api.RaftServer
	for _, p := range conf.Servers {
		if !p.Leader {
			to = p
		}
	}
	if err := old.API.Operator().RaftTransferLeadershipByID(to.ID, nil); err != nil {
		t.Fatal(err)
	}
	now := c.leader(old)
	if !strings.HasPrefix(to.Address, now.IP+":") {
		t.Errorf("%s leads, want %s", now.Name, to.Address)
	}
	now.Until(20*time.Second, "healthy servers", func() error {
		health, _, err := now.API.Operator().AutopilotServerHealth(nil)
		if err == nil && (len(health.Servers) != 3 || !health.Healthy || health.FailureTolerance != 1) {
			err = fmt.Errorf("health %+v", health)
		}
		return err
	})
	auto, _, err := now.API.Operator().AutopilotGetConfiguration(nil)
	if err != nil || !auto.CleanupDeadServers {
		t.Fatalf("autopilot %+v %v", auto, err)
	}
	auto.MinQuorum = 3
	if ok, _, err := now.API.Operator().AutopilotCASConfiguration(auto, nil); err != nil || !ok {
		t.Errorf("set the autopilot: %v %v", ok, err)
	}
	if ok, _, err := now.API.Operator().AutopilotCASConfiguration(auto, nil); err != nil || ok {
		t.Errorf("set the autopilot from a stale index: %v %v", ok, err)
	}
	regions, err := now.API.Regions().List()
	if err != nil || len(regions) != 1 || regions[0] != "global" {
		t.Errorf("regions %v %v", regions, err)
	}
}

// TestSnapshotOfAnotherCluster takes a snapshot to a cluster of its own, and one without secrets.
func TestSnapshotOfAnotherCluster(t *testing.T) {
	lab := kit.NewLab(t)
	a, b := lab.Host("a1"), lab.Host("b1")
	for _, s := range []*kit.Host{a, b} {
		s.Serve([]*kit.Host{s}, kit.Quick)
		s.Until(20*time.Second, "a leader", func() error {
			_, err := s.API.Operator().RaftGetConfiguration(nil)
			return err
		})
	}
	a.Until(20*time.Second, "a write", func() error {
		_, _, err := a.API.Jobs().Register(kit.ShellJob("kept", "exec sleep 1000"), nil)
		return err
	})
	run := func(s *kit.Host, want int, args ...string) string {
		t.Helper()
		out, code := s.Run(args...)
		if code != want {
			t.Errorf("nomad %q: exit %d: %s", args, code, out)
		}
		return out
	}
	whole, redacted := lab.Path("whole.snap"), lab.Path("redacted.snap")
	run(a, 0, "operator", "snapshot", "save", whole)
	run(a, 0, "operator", "snapshot", "save", "-redact", redacted)
	if out := run(b, 0, "operator", "snapshot", "inspect", redacted); !strings.Contains(out, "Redacted = true") {
		t.Errorf("inspect: %s", out)
	}
	if out := run(a, 0, "operator", "snapshot", "restore", whole); strings.Contains(out, "Warning") {
		t.Errorf("restore of a cluster's own snapshot: %s", out)
	}
	if out := run(b, 1, "operator", "snapshot", "restore", redacted); !strings.Contains(out, "only to look at") {
		t.Errorf("restore without secrets: %s", out)
	}
	if _, _, err := b.API.Jobs().Info("kept", nil); err == nil {
		t.Error("a refused snapshot was restored")
	}
	if out := run(b, 0, "operator", "snapshot", "restore", whole); !strings.Contains(out, "Warning: the snapshot is of another cluster") {
		t.Errorf("restore of another cluster's snapshot: %s", out)
	}
	if _, _, err := b.API.Jobs().Info("kept", nil); err != nil {
		t.Errorf("the job is not there: %v", err)
	}
	b.Until(10*time.Second, "the log to tell", func() error {
		if !strings.Contains(b.LogTail(200), "a snapshot of another cluster was restored") {
			return fmt.Errorf("not yet")
		}
		return nil
	})
}
