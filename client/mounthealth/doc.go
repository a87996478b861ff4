// Package mounthealth asks published mounts whether they live, and does with one that has failed what its
// volume's on_mount_dead policy wants.
//
// # Probes
//
// The monitor calls statfs on every published mount each interval, with at most one pending call per mount, because a
// call to a hung mount cannot be interrupted. A mount has failed when statfs returns an error that only a new mount
// ends ([Failed]), or when it is unresponsive or missing twice in a row.
//
// # Policies
//
//	ignore      the failure is reported
//	signal      the tasks that mount the volume get SIGHUP
//	republish   the volume is published again, and the tasks that mount it are restarted
//	restart     the same with all running tasks of the allocation
//
// What a repair does to the mount is the business of [Volumes]; when and how often is decided here.
package mounthealth
