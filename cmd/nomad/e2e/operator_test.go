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
	t.Parallel()
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
	t.Parallel()
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
