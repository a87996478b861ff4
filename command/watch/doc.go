// Package watch is "nomad watch": one live screen of jobs, allocations, volumes and nodes on a terminal.
//
// The model holds what is shown. It has no clock and no input: it takes messages (keys, sizes, results of reads, the
// time) and returns effects (read, act, open a shell, end). The program carries the effects out and draws the model with
// bubbletea; the cluster reads through api/rest, the same HTTP API that the web page uses.
//
// Invariants:
//   - One page of a list is held at a time, at most pageSize rows, and the last logMax lines of a log.
//   - A text of the cluster is escaped with [view.Inline] before it becomes part of a line.
//   - A failed read keeps what is shown. The next read follows after a pause.
package watch
