package ledger

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/jobs/diff"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Missing returns the error for a job that does not exist.
func Missing(ns, id string) error {
	return fault.New(fault.NotFound, "job not found: there is no %q in namespace %q", id, ns)
}

// MissingVersion returns the error for a version that a job does not have.
func MissingVersion(ns, id string, version uint64) error {
	return fault.New(fault.NotFound, "job %q in namespace %q has no version %d", id, ns, version)
}

// MarkStable marks, within another command, whether a version is stable.
func MarkStable(tx *state.Txn, ns, id string, version uint64, stable bool) error {
	v := tx.JobVersion(ns, id, version)
	if v == nil {
		return MissingVersion(ns, id, version)
	}
	if v.Stable == stable {
		return nil
	}
	Change(tx, v, func(j *api.Job) { j.Stable = stable })
	return nil
}

// Change edits what is not specification of a version, and of the job if that is its current version.
func Change(tx *state.Txn, v *api.Job, edit func(*api.Job)) {
	next := *v
	edit(&next)
	next.ModifyIndex = tx.Index()
	tx.PutJobVersion(&next)
	if now := tx.Job(v.Namespace, v.ID); now != nil && now.Version == v.Version {
		j := *now
		edit(&j)
		tx.PutJob(&j)
	}
}

// Revert registers an older version of a job again as its newest within another command, with its source,
// and stores an evaluation with trigger job-register, which a caller may put again changed; a periodic or
// parameterised job has none. It refuses the current version.
func Revert(tx *state.Txn, ns, id string, version uint64, evalID string) (*api.Evaluation, error) {
	now := tx.Job(ns, id)
	if now == nil {
		return nil, Missing(ns, id)
	}
	if now.Version == version {
		return nil, fault.New(fault.Invalid, "can't revert job %q to its current version %d", id, version)
	}
	old := tx.JobVersion(ns, id, version)
	if old == nil {
		return nil, MissingVersion(ns, id, version)
	}
	j := *old
	j.Stop = false
	if err := Placed(tx, &j); err != nil {
		return nil, err
	}
	if err := Needed(tx, now, &j); err != nil {
		return nil, err
	}
	Store(tx, &j, now, tx.JobSubmission(ns, id, version))
	if Parent(&j) {
		return nil, nil
	}
	e := Evaluation(tx, &j, evalID, api.TriggerJobRegister, 0)
	tx.PutEval(e)
	return e, nil
}

// Store makes j the current version, and a new one if it asks for something else than old.
func Store(tx *state.Txn, j, old *api.Job, source *api.JobSubmission) {
	j.Status, j.SubmitTime, j.JobModifyIndex, j.Version, j.Stable = "", tx.Now().UnixNano(), tx.Index(), 0, false
	j.VersionTag = nil
	j.TaskGroups = Policed(j, old, tx.Index())
	if old != nil {
		j.Version = old.Version + 1
		if diff.Same(old, j) {
			j.Version, j.JobModifyIndex, j.Stable, j.SubmitTime = old.Version, old.JobModifyIndex, old.Stable, old.SubmitTime
			j.VersionTag = old.VersionTag
		}
	}
	tx.PutJob(j)
	version := *j
	tx.PutJobVersion(&version)
	if source != nil {
		tx.PutJobSubmission(j.Namespace, j.ID, j.Version, source)
	}
}

// Prune forgets the oldest versions beyond keep. Those with a tag stay and do not count, and so does the
// newest stable one: it is what a failed deployment goes back to.
func Prune(tx *state.Txn, j *api.Job, keep int) {
	if keep <= 0 {
		return
	}
	kept, stable := 0, false
	for _, v := range tx.JobVersions(j.Namespace, j.ID) {
		newestStable := v.Stable && !stable
		stable = stable || v.Stable
		if v.VersionTag != nil {
			continue
		}
		if kept++; kept > keep && !newestStable {
			tx.DeleteJobVersion(j.Namespace, j.ID, v.Version)
		}
	}
}
