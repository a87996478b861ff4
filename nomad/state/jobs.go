package state

import (
	"iter"
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

// submission is the stored form of a job version's source text.
type submission struct {
	Namespace, JobID string
	Version          uint64
	Source           *api.JobSubmission
}

// JobKey is one job's row.
func JobKey(ns, id string) Key { return Key{TableJobs, "id", rowKey(ns, id)} }

// JobSummaryKey is one job's summary.
func JobSummaryKey(ns, id string) Key { return Key{TableSummaries, "id", rowKey(ns, id)} }

// JobChildrenKey is all instances of a periodic or parameterised job.
func JobChildrenKey(ns, parent string) Key { return Key{TableJobs, "parent", rowKey(ns, parent)} }

func parentOfJob(j *api.Job) []string {
	if j.ParentID == "" {
		return nil
	}
	return []string{rowKey(j.Namespace, j.ParentID)}
}

func tokenOfJob(j *api.Job) []string {
	if j.ParentID == "" || j.DispatchIdempotencyToken == "" {
		return nil
	}
	return []string{rowKey(j.Namespace, j.ParentID, j.DispatchIdempotencyToken)}
}

func jobID(j *api.Job) string { return rowKey(j.Namespace, j.ID) }

func pluginsOfJob(j *api.Job) []string {
	var ids []string
	for _, g := range j.TaskGroups {
		for _, task := range g.Tasks {
			if p := task.CSIPluginConfig; p != nil && !slices.Contains(ids, p.ID) {
				ids = append(ids, p.ID)
			}
		}
	}
	return ids
}

// Job returns the current version of the job, or nil.
func (t *Txn) Job(ns, id string) *api.Job { return jobs.get(t, rowKey(ns, id)) }

// Jobs lists the jobs of a namespace by id.
func (t *Txn) Jobs(ns string) iter.Seq[*api.Job] { return inNamespace(jobs, t, ns) }

// JobsByPlugin lists the jobs with a task that is an instance of the CSI plugin.
func (t *Txn) JobsByPlugin(plugin string) iter.Seq[*api.Job] { return jobs.list(t, "plugin", plugin) }

// JobsByParent lists the instances of a periodic or parameterised job.
func (t *Txn) JobsByParent(ns, parent string) iter.Seq[*api.Job] {
	return jobs.list(t, "parent", rowKey(ns, parent))
}

// JobByToken returns the instance of a parameterised job that was dispatched with the token, or nil.
func (t *Txn) JobByToken(ns, parent, token string) *api.Job {
	return jobs.first(t, "token", rowKey(ns, parent, token))
}

// PutJob stores the job as the current version and makes its summary complete.
func (t *Txn) PutJob(j *api.Job) {
	jobs.put(t, j)
	t.summarizeGroups(j)
}

// DeleteJob forgets the job, its versions, sources, summary, scaling events, launches and claims on sticky host volumes.
func (t *Txn) DeleteJob(ns, id string) bool {
	for _, v := range slices.Collect(versions.list(t, "job", rowKey(ns, id))) {
		versions.remove(t, v)
	}
	for _, s := range slices.Collect(submissions.list(t, "job", rowKey(ns, id))) {
		submissions.remove(t, s)
	}
	for _, c := range slices.Collect(t.HostVolumeClaimsOfJob(ns, id)) {
		hostVolumeClaims.remove(t, c)
	}
	t.counting = nil
	summaries.remove(t, t.JobSummary(ns, id))
	scalings.remove(t, t.JobScaling(ns, id))
	launches.remove(t, launches.get(t, rowKey(ns, id)))
	return jobs.remove(t, t.Job(ns, id))
}

// JobVersions lists the kept versions of a job, newest first.
func (t *Txn) JobVersions(ns, id string) []*api.Job {
	all := slices.Collect(versions.from(t, rowKey(ns, id, "")))
	slices.Reverse(all)
	return all
}

// JobVersion returns one version of a job, or nil.
func (t *Txn) JobVersion(ns, id string, version uint64) *api.Job {
	return versions.get(t, rowKey(ns, id, versionKey(version)))
}

// PutJobVersion stores the job as one of its versions; its indexes stay as they are.
func (t *Txn) PutJobVersion(j *api.Job) { versions.put(t, j) }

// DeleteJobVersion forgets one version and its source.
func (t *Txn) DeleteJobVersion(ns, id string, version uint64) {
	versions.remove(t, t.JobVersion(ns, id, version))
	submissions.remove(t, submissions.get(t, rowKey(ns, id, versionKey(version))))
}

// JobSubmission returns the source text of a version, or nil.
func (t *Txn) JobSubmission(ns, id string, version uint64) *api.JobSubmission {
	if s := submissions.get(t, rowKey(ns, id, versionKey(version))); s != nil {
		return s.Source
	}
	return nil
}

// PutJobSubmission stores the source text of a version.
func (t *Txn) PutJobSubmission(ns, id string, version uint64, source *api.JobSubmission) {
	submissions.put(t, &submission{ns, id, version, source})
}
