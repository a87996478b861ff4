// Package gauges reports what the state of the cluster amounts to: jobs, allocations, and volumes with their claims and
// attachments. It keeps nothing: each reading walks the rows of jobs and volumes, not those of allocations, which the state
// counts by itself.
package gauges
