package state

import (
	"iter"
	"maps"

	"github.com/open-nomad/open-nomad/api"
)

// JobSummary returns the counts of the job's allocations, or nil.
func (t *Txn) JobSummary(ns, id string) *api.JobSummary { return summaries.get(t, rowKey(ns, id)) }

// JobSummaries lists the summaries of a namespace.
func (t *Txn) JobSummaries(ns string) iter.Seq[*api.JobSummary] { return inNamespace(summaries, t, ns) }

// PutJobSummary replaces a summary; only recounting needs it.
func (t *Txn) PutJobSummary(s *api.JobSummary) {
	t.counting = nil
	summaries.put(t, s)
}

// summarizeGroups makes sure that each group of the job has a row of counts.
func (t *Txn) summarizeGroups(j *api.Job) {
	t.changeSummary(j.Namespace, j.ID, func(s *api.JobSummary) bool {
		changed := len(s.Summary) == 0
		for _, g := range j.TaskGroups {
			if _, ok := s.Summary[g.Name]; !ok {
				s.Summary[g.Name], changed = api.TaskGroupSummary{}, true
			}
		}
		return changed
	})
}

// changeSummary applies change to a copy and stores the copy when change returns true.
func (t *Txn) changeSummary(ns, job string, change func(*api.JobSummary) bool) {
	next := &api.JobSummary{Namespace: ns, JobID: job, Summary: map[string]api.TaskGroupSummary{}}
	old := t.JobSummary(ns, job)
	if old != nil && t.counted[old] { // made by this transaction: no reader has it
		if change(old) {
			t.remember(old)
		}
		return
	}
	if old != nil {
		*next = *old
		next.Summary = maps.Clone(old.Summary)
		if next.Summary == nil {
			next.Summary = map[string]api.TaskGroupSummary{}
		}
	}
	if change(next) {
		t.PutJobSummary(next)
		if t.counted == nil {
			t.counted = map[*api.JobSummary]bool{}
		}
		t.counted[next], t.counting = true, next
	}
}

// summarizeAlloc moves one allocation from its old count to its new one. Ended allocations that are
// forgotten stay counted.
func (t *Txn) summarizeAlloc(old, a *api.Allocation) {
	if old != nil && old.ClientStatus == a.ClientStatus {
		return
	}
	if s := t.counting; s != nil && s.JobID == a.JobID && s.Namespace == a.Namespace {
		recount(s, old, a)
		t.remember(s)
		return
	}
	if t.Job(a.Namespace, a.JobID) == nil {
		return
	}
	t.changeSummary(a.Namespace, a.JobID, func(s *api.JobSummary) bool {
		recount(s, old, a)
		return true
	})
}

func recount(s *api.JobSummary, old, a *api.Allocation) {
	g := s.Summary[a.TaskGroup]
	if old != nil {
		if n := statusCount(&g, old.ClientStatus); n != nil && *n > 0 {
			*n--
		}
	}
	if n := statusCount(&g, a.ClientStatus); n != nil {
		*n++
	}
	s.Summary[a.TaskGroup] = g
}

func statusCount(g *api.TaskGroupSummary, status string) *int {
	switch status {
	case api.AllocClientStatusPending:
		return &g.Starting
	case api.AllocClientStatusRunning:
		return &g.Running
	case api.AllocClientStatusComplete:
		return &g.Complete
	case api.AllocClientStatusFailed:
		return &g.Failed
	case api.AllocClientStatusLost:
		return &g.Lost
	case api.AllocClientStatusUnknown:
		return &g.Unknown
	}
	return nil
}

// summarizeEval takes over how many allocations the evaluation could not place.
func (t *Txn) summarizeEval(e *api.Evaluation) {
	if len(e.QueuedAllocations) == 0 || t.Job(e.Namespace, e.JobID) == nil {
		return
	}
	t.changeSummary(e.Namespace, e.JobID, func(s *api.JobSummary) bool {
		changed := false
		for group, queued := range e.QueuedAllocations {
			if g := s.Summary[group]; g.Queued != queued {
				g.Queued, changed = queued, true
				s.Summary[group] = g
			}
		}
		return changed
	})
}
