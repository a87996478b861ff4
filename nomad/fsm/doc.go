// Package fsm holds the commands of the raft log and the [Machine] that applies them to the state. Package consensus brings
// them into the log, disk keeps log and snapshots, archive is the format of an operator's snapshot, and recovery repairs
// the log of a stopped server.
//
// A [Command] belongs to a service, which exports it with `func Commands(r *fsm.Registry)`. An entry of
// the log is
//
//	version (1 byte) | kind (2) | time (8) | proposer (1 + n) | body, msgp | CRC32C (4)
//
// in big endian. Bodies are maps with field names, so fields may be added and never be renamed; kinds
// are numbers in one append-only list.
//
// Invariants:
//   - Apply runs in one write transaction, which is committed when it returns no error and aborted
//     otherwise. The proposer gets that error with its class.
//   - An entry whose checksum is wrong, or whose kind is unknown and below [KindSkippable], stops the
//     machine: nothing after it is applied, no snapshot is taken, and [Machine.Failed] signals the server to
//     end. The disk then has what a newer program or another server needs to go on.
//   - Time in a command is the proposer's; Apply sees it as tx.Now().
package fsm
