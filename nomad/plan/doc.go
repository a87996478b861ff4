// Package plan brings plans into the state: a queue by priority, verification on the latest state, and
// the one raft command that writes allocations together with the volume claims they take.
//
// [Applier] runs on the leader and is the only source of placements, so what it verified stays true
// until its command is applied. All plans that wait are verified one after the other in one overlay and go
// into one raft entry; while that is on its way, the next ones are verified on top of it. A node that cannot
// take its part of a plan is left out, with the stops whose successors were meant for it; the
// scheduler then tries again on newer state.
//
// [Apply] checks once more what other commands may have changed meanwhile (the job, the nodes, the
// claims) and refuses a plan as a whole if it no longer fits.
//
// [FleetCache] keeps the fleet in step with the state.
//
// Who writes what: Apply writes the desired half of allocations, the links between an allocation and
// its successor, and the evaluation whose plan was committed as a whole. Claims are written by
// nomad/volumes/ledger inside Apply.
package plan
