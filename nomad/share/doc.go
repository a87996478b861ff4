// Package share lets equal parts of allocations share memory: after they were read from a log entry
// or a snapshot, each would else have a copy of its own of ids, resources and counts.
//
// Invariant: shared parts are never changed; a writer copies the part first.
package share
