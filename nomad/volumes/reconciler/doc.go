// Package reconciler makes the world of drivers and nodes follow the state. It is the only caller of
// controllers and, for volumes, of nodes.
//
// [Reconciler.Run] is a leader task. It reads what the rows intend, calls, and records the reply; a change of a row
// only marks what to reconcile. Its two rules: call publish for what is publishing, call unpublish for what is
// unpublishing. In addition it repeats creations, expansions, deletions and snapshots, asks nodes to unmount what they
// forgot to report, evicts claims on lost nodes, and forgets volume limits in time.
//
// One call is in flight per external volume. Only the verdict of package plugins/csi, which comes with each reply of a
// plugin, decides whether and how a call is repeated. What a call may have done stays uncertain until it is undone or
// verified, regardless of the next reply and of the leader.
//
// What calls need is in the rows. In memory are only attempts, calls on their way, when losses of nodes were seen, and
// final replies for callers that wait.
package reconciler
