package nodes_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/nodes"
)

// A registration that was held up on its way, at a server that was frozen or cut off, and comes after newer ones, would have
// the node be what it was: with other plugins, other mounts, or before its host was started anew.
func TestLateRegistrationIsNotTaken(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	say := func(process string, number uint64, boot string) (late bool) {
		t.Helper()
		n := node("n1")
		n.BootID = boot
		out, err := r.Register(t.Context(), &api.NodeRegisterRequest{Node: n, Process: process, Number: number})
		if err != nil {
			t.Fatal(err)
		}
		return out.Late
	}
	for i, s := range []struct {
		process string
		number  uint64
		late    bool
	}{
		{"first", 1, false},
		{"first", 3, false},
		{"first", 2, true},
		{"first", 3, false}, // twice
		{"second", 1, false},
		{"first", 4, true},
		{"third", 1, false},
		{"second", 2, true},
		{"first", 5, true},
		{"", 0, false}, // an older agent
		{"third", 2, true},
		{"fourth", 1, false},
	} {
		before := r.state.Read().Node("n1")
		if late := say(s.process, s.number, s.process); late != s.late {
			t.Errorf("%d: %s %d is late: %v, want %v", i, s.process, s.number, late, s.late)
		}
		if after := r.state.Read().Node("n1"); s.late && (after.BootID != before.BootID || after.ModifyIndex != before.ModifyIndex) {
			t.Errorf("%d: %s %d was taken", i, s.process, s.number)
		}
	}
}
