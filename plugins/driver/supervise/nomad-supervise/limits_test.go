package main

import (
	"os"
	"testing"

	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// A cgroup that a job names counts what the kernel has ended in it before.
func TestOnlyNewOOMKillsCount(t *testing.T) {
	s := &supervisor{spec: frame.Spec{Cgroup: t.TempDir()}}
	write := func(events string) {
		if err := os.WriteFile(s.spec.Cgroup+"/memory.events", []byte(events), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if s.oomKilled() {
		t.Error("killed, without a count")
	}
	write("low 0\noom 3\noom_kill 12\noom_group_kill 0\n")
	if s.kills = oomKills(&s.spec); s.kills != "12" || s.oomKilled() {
		t.Errorf("count %q, killed %t", s.kills, s.oomKilled())
	}
	if write("low 0\noom 4\noom_kill 13\noom_group_kill 0\n"); !s.oomKilled() {
		t.Error("not killed")
	}
}
