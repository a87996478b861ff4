// Package gc is the service that deletes what has ended: evaluations with their allocations, jobs, nodes,
// deployments. Run does it from time to time on the leader; System.GC does it now.
//
// Each step is on its own: one that fails is reported and does not keep the others from running.
//
// [Reap] checks again, inside Apply, that everything it is to delete has ended. Invariants:
//   - An allocation or node that a volume claim or an attachment still needs is never forgotten.
//   - An allocation is deleted only when its node has finished with it, or was removed.
//   - A failed allocation that may still be tried again stays.
//   - A job is forgotten together with all its evaluations and allocations, or not at all.
//     Whether it is dead is derived from them; the status in its row is not kept up to date.
package gc
