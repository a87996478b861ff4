// Package mounthealth asks published mounts whether they live, and does with one that has failed what its
// volume's on_mount_dead policy wants.
//
// # Probes
//
// Every published mount is asked with statfs each interval, with at most one open question per mount: a question
// to a hung mount cannot be interrupted. A mount has failed when it answers an error that only a new mount ends
// ([Failed]), or is unresponsive, or not there, twice in a row.
//
// # Policies
//
//	ignore      the failure is told
//	signal      the tasks that mount the volume get SIGHUP
//	republish   the volume is published anew, and the tasks that mount it are restarted
//	restart     the same with all running tasks of the allocation
//
// What a repair does to the mount is the business of [Volumes]; when and how often is decided here.
package mounthealth
