package command_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

const drained = "9f6d9b6e-0c3e-4ad2-8ca0-1f5f0e0d3a11"

func drainEvent(index uint64, text string) *api.NodeEvent {
	return &api.NodeEvent{Subsystem: api.NodeEventSubsystemDrain, CreateIndex: index, Timestamp: time.Unix(1, 0), Message: text}
}

func TestDrainShowsWhatItWaitsFor(t *testing.T) {
	waiting := &api.Node{ID: drained, DrainStrategy: &api.DrainStrategy{}, Events: []*api.NodeEvent{
		drainEvent(3, "an older drain"), drainEvent(9, `Node drain waits for volumes: volume "v" is mounted`),
	}}
	a := newAgent(t, map[string]any{
		"GET /v1/nodes":                            []*api.NodeStub{{ID: drained}},
		"GET /v1/node/" + drained:                  []any{waiting, waiting, &api.Node{ID: drained}},
		"PUT /v1/node/" + drained + "/drain":       &api.NodeWriteResponse{NodeModifyIndex: 5},
		"GET /v1/node/" + drained + "/allocations": []*api.Allocation{},
	})
	out := run(t, a, "", "node", "drain", "-enable", "-yes", drained)
	out.want(t, 0, "Ctrl-C to stop monitoring", `waits for volumes: volume "v" is mounted`, "the drain has ended")
	if strings.Count(out.out, "waits for volumes") != 1 || strings.Contains(out.out, "older") {
		t.Errorf("events are not shown once, or old ones are: %s", out.out)
	}
	out = run(t, a, "", "node", "drain", "-enable", "-yes", "-detach", drained)
	out.want(t, 0, "drain strategy set")
	if strings.Contains(out.out, "Ctrl-C") {
		t.Errorf("nothing is monitored: %s", out.out)
	}
}
