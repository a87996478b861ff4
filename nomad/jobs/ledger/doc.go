// Package ledger is how raft commands write jobs: a new version, an older one anew, marks on versions. The
// services of jobs and of deployments use it inside their commands.
//
// Invariants:
//   - A job's row and the row of its newest version say the same.
//   - A version is never changed but for its marks: stability and tag.
//   - What volumes need of a CSI plugin is not taken away by a command that was not forced.
package ledger
