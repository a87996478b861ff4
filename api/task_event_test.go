package api

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEventsTellTheirCauseAmongTheirFields reads and writes events as other programs do.
func TestEventsTellTheirCauseAmongTheirFields(t *testing.T) {
	t.Parallel()
	for _, e := range []*TaskEvent{
		{Type: EventStarted, Time: 7},
		{Type: EventRestarting, TaskEventCause: &TaskEventCause{StartDelay: 5, RestartReason: "policy"}},
	} {
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		cause := e.TaskEventCause
		if cause == nil {
			cause = &TaskEventCause{}
		}
		if len(fields) != 25 || fields["StartDelay"] != float64(cause.StartDelay) || fields["RestartReason"] != cause.RestartReason {
			t.Errorf("%s", text)
		}
		var back TaskEvent
		if err := json.Unmarshal(text, &back); err != nil || back.RestartReason != cause.RestartReason {
			t.Errorf("%s came back as %+v, %v", text, back, err)
		}
		packed, err := e.MarshalMsg(nil)
		if err != nil {
			t.Fatal(err)
		}
		var again TaskEvent
		if rest, err := again.UnmarshalMsg(packed); err != nil || len(rest) > 0 || !cmp.Equal(*e, again) {
			t.Errorf("%+v came back as %+v, %d bytes left, %v", e, again, len(rest), err)
		}
	}
}
