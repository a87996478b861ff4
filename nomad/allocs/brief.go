package allocs

import (
	"maps"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// Bounds of what a node reports of an allocation: it is a row, and a part of lists.
const (
	// reportMax bounds a report in bytes.
	reportMax = 1 << 20
	// textMax is how much of a text for people is kept, eventsMax how many events of a task, detailsMax how many
	// details of one.
	textMax    = 1 << 10
	eventsMax  = 32
	detailsMax = 32
)

// brief cuts what is for people. A report is not refused for it: volumes and deployments wait for the status.
func brief(a *api.Allocation) *api.Allocation {
	a.ClientDescription = cut(a.ClientDescription)
	if a.TaskStates == nil {
		return a
	}
	states := make(map[string]*api.TaskState, len(a.TaskStates))
	for name, s := range a.TaskStates {
		if s != nil {
			short := *s
			short.Events = briefEvents(s.Events)
			s = &short
		}
		states[name] = s
	}
	a.TaskStates = states
	return a
}

func briefEvents(all []*api.TaskEvent) []*api.TaskEvent {
	all = all[max(0, len(all)-eventsMax):]
	out := make([]*api.TaskEvent, len(all))
	for i, e := range all {
		if out[i] = e; e == nil {
			continue
		}
		short := *e
		short.DisplayMessage, short.Message, short.Details = cut(e.DisplayMessage), cut(e.Message), briefDetails(e.Details)
		if c := e.TaskEventCause; c != nil {
			cause := *c
			for _, text := range []*string{&cause.RestartReason, &cause.SetupError, &cause.DriverError, &cause.DriverMessage, &cause.KillReason} {
				*text = cut(*text)
			}
			short.TaskEventCause = &cause
		}
		out[i] = &short
	}
	return out
}

func briefDetails(all map[string]string) map[string]string {
	out := maps.Clone(all)
	for k, v := range out {
		if len(k) > textMax || len(out) > detailsMax {
			delete(out, k)
			continue
		}
		out[k] = cut(v)
	}
	return out
}

// cut keeps the beginning of a text, in whole characters.
func cut(s string) string {
	if len(s) <= textMax {
		return s
	}
	return strings.ToValidUTF8(s[:textMax], "") + "..."
}
