package reconcile

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// Succeeded reports whether all tasks ended without failing.
func Succeeded(a *api.Allocation) bool {
	if a.ClientStatus != api.AllocClientStatusComplete {
		return false
	}
	for _, t := range a.TaskStates {
		if t.State != api.TaskStateDead || t.Failed {
			return false
		}
	}
	return true
}

// StoppedByClient reports whether the disconnected node stopped the allocation by itself. A task that is killed
// because others have ended has an event with that reason.
func StoppedByClient(a *api.Allocation) bool {
	g := a.Group()
	if g == nil || stopAfterDisconnect(g) <= 0 {
		return false
	}
	if limit := g.MaxRunDuration; limit > 0 && EndedAt(a).Sub(time.Unix(0, a.CreateTime)) >= limit {
		return false
	}
	for _, t := range a.TaskStates {
		killed, explained := false, false
		for _, e := range t.Events {
			killed = killed || e.Type == api.EventKilling
			explained = explained || e.Type == api.EventLeaderDead || e.Type == api.EventMainDead
		}
		if killed && !explained {
			return true
		}
	}
	return false
}

// Finished reports whether the allocation did its work, as batch jobs have it.
func Finished(a *api.Allocation) bool { return Succeeded(a) && !StoppedByClient(a) }

// SameWork reports whether what a finished allocation did is what the job asks for now.
func SameWork(a *api.Allocation, j *api.Job) bool {
	return a.Job != nil && a.Job.CreateIndex == j.CreateIndex &&
		(a.Job.Version == j.Version || !Destructive(a.Job, j, a.TaskGroup))
}

// RunsOnce reports whether the job's work has an end.
func RunsOnce(j *api.Job) bool { return j.Type == api.JobTypeBatch || j.Type == api.JobTypeSysbatch }

// MustRetain reports whether an ended allocation must be retained as the record of finished work. dead reports that no
// allocation of the job runs or will run; the job is nil when it is deleted.
func MustRetain(a *api.Allocation, j *api.Job, dead bool) bool {
	if j == nil || !RunsOnce(j) || j.Stop && dead {
		return false
	}
	older := a.Job != nil && (a.Job.Version < j.Version || a.Job.CreateIndex < j.CreateIndex)
	return !older || j.Type == api.JobTypeSysbatch && SameWork(a, j)
}

// EndedAt is when the last task ended, or when the allocation last changed. A node tells the time of an end by its own
// clock: one that is not between the creation and the last change, which are times of the servers, is wrong.
func EndedAt(a *api.Allocation) time.Time {
	var last time.Time
	for _, t := range a.TaskStates {
		if t.FinishedAt.After(last) {
			last = t.FinishedAt
		}
	}
	if at := last.UnixNano(); last.IsZero() || at < a.CreateTime || at > a.ModifyTime {
		return time.Unix(0, a.ModifyTime)
	}
	return last
}
