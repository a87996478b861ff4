package allocs

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/httpapi/view"
)

// stubView is a row of the list of allocations. Its events write themselves, which the encoder checks and copies once
// more: in a list that is asked for at each change that is most of the work.
type stubView struct {
	*api.AllocStub
	AllocatedResources *view.GivenResources `json:",omitempty"`
	TaskStates         map[string]*stateView
}

// stateView is a task's state as it writes itself.
type stateView struct {
	State                              string
	Failed                             bool
	Restarts                           uint64
	LastRestart, StartedAt, FinishedAt *time.Time
	Events                             []*eventView
	Paused                             string
}

// timeOf is nil for a time that has not come.
func timeOf(t *time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return t
}

type eventView api.TaskEvent

var noCause api.TaskEventCause

func viewStates(states map[string]*api.TaskState) map[string]*stateView {
	if states == nil {
		return nil
	}
	out := make(map[string]*stateView, len(states))
	for name, s := range states {
		if s == nil {
			out[name] = nil
			continue
		}
		v := &stateView{
			State: s.State, Failed: s.Failed, Restarts: s.Restarts, Paused: s.Paused,
			LastRestart: timeOf(&s.LastRestart), StartedAt: timeOf(&s.StartedAt), FinishedAt: timeOf(&s.FinishedAt),
		}
		if s.Events != nil {
			v.Events = make([]*eventView, len(s.Events))
		}
		for i, e := range s.Events {
			if v.Events[i] = (*eventView)(e); e != nil && e.TaskEventCause == nil {
				whole := eventView(*e)
				whole.TaskEventCause = &noCause
				v.Events[i] = &whole
			}
		}
		out[name] = v
	}
	return out
}
