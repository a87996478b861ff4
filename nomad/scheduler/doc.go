// Package scheduler decides which allocations a job gets and where: pure functions from a snapshot, a
// fleet and an evaluation to a plan. It has no side effects and reads no clock: time, IDs and the
// seed are arguments.
//
// [Schedule] handles all four job types. Service and batch (generic.go) reconcile each group with its
// count and place missing allocations on the best nodes; system and sysbatch (system.go) run one allocation per group
// on every node that allows it. Both work on an edit of the fleet, so each placement sees the capacity, ports and volumes
// that earlier stops and placements of the plan freed or took.
//
// Subpackages: fleet (capacity and use of nodes), feasible (constraints), rank (scores) and reconcile (changes of a
// group).
//
// Invariants:
//   - A plan never uses more of a node than is free in the fleet plus what the plan stops there.
//   - An allocation that is replaced is stopped by the same plan that places its successor, and only
//     when the successor was placed, unless its node is lost or it must migrate.
//   - Every refusal is counted in the metrics of the group with its reason.
package scheduler
