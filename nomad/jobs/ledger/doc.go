// Package ledger writes jobs for raft commands: new versions, reverts to older ones, marks on versions. The
// services of jobs and of deployments use it inside their commands.
//
// Invariants:
//   - A job's row equals the row of its newest version.
//   - A version is never changed but for its marks: stability and tag.
//   - What volumes need of a CSI plugin is not taken away by a command that was not forced.
package ledger
