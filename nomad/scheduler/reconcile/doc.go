// Package reconcile compares what a group should have with what it has and says what to do: place,
// stop, update in place, replace. It is pure; where to place is not its business.
//
// [Group] is the whole of it, one pass per group in this order: classify the allocations, choose between
// those whose node came back and their replacements, stop what nobody wants, keep what is right, update or replace what is of another job version, replace what was
// lost, failed or must move, and fill up to the count with the lowest free names.
//
// Roll-outs: without deployments a destructive update goes in steps of update.max_parallel. A step ends
// when its allocations run; the next one is asked for by a follow-up evaluation (see pace.go). When
// deployments come, their health takes the place of "runs".
package reconcile
