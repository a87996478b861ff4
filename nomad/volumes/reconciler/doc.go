// Package reconciler makes the world of drivers and nodes follow the state. It is the only caller of
// controllers and, for volumes, of nodes.
//
// [Reconciler.Run] is a leader task. It looks at what the rows intend, calls, and records the answer; a change
// of a row only says where to look. Its two sentences: call publish for what is publishing, call unpublish for
// what is unpublishing. Beside them it repeats creations, expansions, deletions and snapshots, asks nodes to
// unmount what they forgot to report, gives up claims on lost nodes, and forgets volume limits in time.
//
// One call is in flight per external volume. Whether and how a call is repeated is said by the verdict of
// package plugins/csi, which comes with each answer of a plugin, and by nothing else. What a call may have done
// stays uncertain until it is undone or verified, whatever the next answer says and whoever leads.
//
// What calls need is in the rows. In memory are only tries, calls on their way, when losses of nodes were seen,
// and final answers for callers that wait.
package reconciler
