// Package jobs is the room of jobs: register, validate, plan, stop, purge, versions.
//
// Registering stores the job, its version, its source and its evaluation in one raft entry. The
// version counts up only when the specification changed. Status is not stored: it is derived on
// read from the job's allocations and evaluations, so that it cannot disagree with them.
//
// This room writes jobs, versions and sources; evaluations it only creates.
package jobs
