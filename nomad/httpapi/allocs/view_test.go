package allocs

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// TestListsShowTaskStatesAsTheyAre: the rows of lists are encoded in another way than single allocations.
func TestListsShowTaskStatesAsTheyAre(t *testing.T) {
	for name, states := range map[string]map[string]*api.TaskState{
		"none":      nil,
		"empty":     {},
		"a null":    {"t": nil},
		"no events": {"t": {State: "pending"}},
		"events": {"t": {State: "running", StartedAt: time.Unix(1, 0).UTC(), Events: []*api.TaskEvent{
			{Type: "Started", Time: 5, Details: map[string]string{"a": "<b>"}},
			nil,
			{Type: "Killing", TaskEventCause: &api.TaskEventCause{KillReason: "because", KillTimeout: time.Second}},
		}}, "u": {Events: []*api.TaskEvent{}}},
	} {
		plain := &api.AllocStub{ID: "a", TaskStates: states}
		want, got := decoded(t, plain), decoded(t, stubView{AllocStub: plain, TaskStates: viewStates(states)})
		if !bytes.Equal(want, got) {
			t.Errorf("%s: shown as\n%s, want\n%s", name, got, want)
		}
	}
}

// decoded is the JSON of a value with its keys in order.
func decoded(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var any map[string]any
	if err := json.Unmarshal(raw, &any); err != nil {
		t.Fatal(err)
	}
	raw, err = json.Marshal(any)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
