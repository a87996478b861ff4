// Package tally keeps the counters of deployments in step with their allocations, within the raft command
// that changes an allocation.
//
// Who writes what in an [api.DeploymentState]: the plan that makes the deployment what it wants (DesiredTotal,
// DesiredCanaries, AutoRevert, AutoPromote, ProgressDeadline), the service of deployments Promoted, and this
// package all that is counted: PlacedAllocs, HealthyAllocs, UnhealthyAllocs, PlacedCanaries and
// RequireProgressBy.
//
// The counters tell what happened under a deployment, not what is left of it: each allocation counts as what
// its health was last while it belonged to the deployment. One that is stopped, goes over to another
// deployment or is collected stays counted, so that the record of a finished deployment does not fade.
package tally
