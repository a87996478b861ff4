package main

import (
	"os"
	"testing"
)

// A cgroup that a job names counts what the kernel has ended in it before.
func TestOnlyNewOOMKillsCount(t *testing.T) {
	c := &cgroup{path: t.TempDir()}
	write := func(events string) {
		if err := os.WriteFile(c.path+"/memory.events", []byte(events), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if c.oomKilled() {
		t.Error("killed, without a count")
	}
	write("low 0\noom 3\noom_kill 12\noom_group_kill 0\n")
	if c.kills = c.oomKills(); c.kills != "12" || c.oomKilled() {
		t.Errorf("count %q, killed %t", c.kills, c.oomKilled())
	}
	if write("low 0\noom 4\noom_kill 13\noom_group_kill 0\n"); !c.oomKilled() {
		t.Error("not killed")
	}
}
