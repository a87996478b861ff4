// Package gc is the service that forgets what is over: evaluations with their allocations, jobs, nodes,
// deployments. Run does it from time to time on the leader; System.GC does it now.
//
// Each step is on its own: one that fails is reported and does not keep the others from running.
//
// [Reap] checks again, inside Apply, that everything it is told to forget is still over. Invariants:
//   - An allocation or node that a volume claim or an attachment still needs is never forgotten.
//   - An allocation is forgotten only when its node is done with it, or is gone.
//   - A failed allocation that may still be tried again stays.
//   - A job is forgotten together with all its evaluations and allocations, or not at all.
//     Whether it is dead is derived from them; the status in its row is not kept up to date.
package gc
