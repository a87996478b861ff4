// Package state is the servers' memory: tables of api records, read in consistent
// transactions, with watches and a change feed. It has no rules: services and cores decide.
//
// The tables are those of one go-memdb database. Jobs, their versions and summaries, evaluations and allocations lie in
// it as pages, trees of rows per index.
// Snapshots are encoded and decoded on all processors, and restored allocations share what is equal.
//
// A [Store] hands out transactions. [Store.Read] is a snapshot of all tables at one index; there is
// nothing to close. [Store.Write] belongs to raft's apply loop (and to tests) and there is one at a time.
//
// Invariants:
//   - What was read is never changed: copy the struct, replace the part, put it back. Put takes the
//     object over and sets its CreateIndex and ModifyIndex.
//   - A commit publishes its rows first and wakes watchers after, so a watcher registered before a
//     read never misses a change.
//   - Watches are cells per key, so a commit wakes exactly those whose rows it touched.
//   - [Store.Touched] may be older than what a later read shows, never newer.
//   - Job summaries are an index over allocations and evaluations, kept by PutAlloc and PutEval.
package state
