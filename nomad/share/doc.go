// Package share lets allocations that say the same share the memory: after they were read from a log entry
// or a snapshot, each would else have a copy of its own of ids, resources and counts.
//
// Invariant: what is shared is never changed; who changes an allocation copies the part first.
package share
