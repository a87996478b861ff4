package nodes_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/nodes"
)

// A heartbeat that was held up on its way, at a server that was frozen or cut off, is no sign of life: it neither puts off
// the loss of a node that has died since, nor brings one back that was found lost.
func TestLateHeartbeatIsNoSignOfLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := open(t, nodes.Heartbeat{MinTTL: time.Second, Grace: time.Second, FailoverTTL: time.Minute})
		r.lead()
		synctest.Wait()
		for _, process := range []string{"first", "second"} {
			if _, err := r.Register(t.Context(), &api.NodeRegisterRequest{Node: node("n1"), Process: process, Number: 2}); err != nil {
				t.Fatal(err)
			}
		}
		say := func(process string, number uint64, events ...*api.NodeEvent) (late bool) {
			t.Helper()
			_, err := r.Heartbeat(t.Context(), &api.NodeHeartbeatRequest{NodeID: "n1", Status: api.NodeStatusReady, Process: process, Number: number, Events: events})
			if err != nil && !errors.Is(err, fault.NotFound) {
				t.Fatal(err)
			}
			return err != nil
		}
		for i, s := range []struct {
			process string
			number  uint64
			late    bool
		}{
			{"second", 1, true}, // before its registration
			{"second", 3, false},
			{"second", 5, false},
			{"second", 4, true},
			{"second", 5, false}, // twice
			{"first", 9, true},
			{"", 0, false}, // an older agent
		} {
			if late := say(s.process, s.number); late != s.late {
				t.Errorf("%d: %s %d is late: %v, want %v", i, s.process, s.number, late, s.late)
			}
		}
		for r.state.Read().Node("n1").Status == api.NodeStatusReady {
			time.Sleep(100 * time.Millisecond)
			if !say("second", 4) || !say("first", 9, &api.NodeEvent{Message: "told"}) {
				t.Fatal("a late heartbeat is answered")
			}
		}
		if !say("second", 4) || r.state.Read().Node("n1").Status != api.NodeStatusDown {
			t.Error("a late heartbeat brings a lost node back")
		}
		if say("second", 6) || r.state.Read().Node("n1").Status != api.NodeStatusReady {
			t.Error("a new heartbeat does not bring a lost node back")
		}
	})
}
