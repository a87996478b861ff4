// Package scheduler decides which allocations a job gets and where: pure functions from a snapshot, a
// fleet and an evaluation to a plan. It starts nothing, writes nothing and knows no clock: time, ids
// and the seed are arguments.
//
// [Schedule] serves all four kinds of jobs. Service and batch (generic.go) reconcile each group with its
// count and place what is missing on the best nodes; system and sysbatch (system.go) want one allocation
// per group on every node that can run it. Both try their placements in an overlay of the fleet, so
// whatever a plan stops or places is seen by its next placement: capacity, ports, volumes.
//
// The parts: package fleet (what nodes have and what is used), feasible (may this node run it at all),
// rank (which node is best), reconcile (what to do with a group).
//
// Invariants:
//   - A plan never uses more of a node than the fleet says is free, less what the plan stops there.
//   - An allocation that is replaced is stopped by the same plan that places its successor, and only
//     when the successor found a place, unless its node is lost or it must move.
//   - Every refusal is counted in the metrics of the group with a reason that names the thing.
package scheduler
