// Package jobs is the service of jobs: register, validate, plan, stop, purge, versions.
//
// Registering stores the job, its version, its source and its evaluation in one raft entry. The
// version counts up only when the specification changed. Status is not stored: it is derived on
// read from the job's allocations and evaluations, so that it cannot disagree with them.
//
// The newest versions are kept, those with a tag, and the newest stable one. Periodic and parameterised jobs
// are templates: they have no evaluations, and their instances are jobs of their own that outlive a purge of
// the template. The instance for a time is named after the time; a time is served once.
//
// This service writes jobs, versions, sources, scaling events and launches; evaluations it only creates. Other
// services' commands go back to a version with [Revert] and say which is stable with [MarkStable].
package jobs
