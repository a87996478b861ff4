// Package reconcile compares what a group should have with what it has and says what to do: place,
// stop, update in place, replace. It is pure; where to place is not its business.
//
// [Group] is the whole of it for service and batch jobs, one pass per group in this order: classify the
// allocations, choose between those whose node came back and their replacements, see whether canaries come
// first, stop what nobody wants, sort out what is of another job version, place canaries, replace what was
// lost, failed or must move, fill up to the count with the lowest free names, and begin as many destructive
// updates as may be under way at once.
//
// [Rollout] is what a deployment allows a group; system jobs ask it too. A deployment is of one job
// version; [Current] finds it. A group joins it when it has an update block, something is wanted, and
// nothing of the version ran or what runs changes.
//
// Invariants:
//   - What is kept and placed is never more than the count, and canaries never more than wanted.
//   - No two kept allocations have one name; a canary has the name of the one that it may replace.
//   - Of a running roll-out, not more than max_parallel allocations are replaced or not yet healthy.
//   - One pass costs time linear in the allocations.
package reconcile
