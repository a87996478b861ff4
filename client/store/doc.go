// Package store keeps what the node must know after a restart: one bbolt file with buckets of bytes, and
// typed records of allocations, their steps and their tasks on top.
//
// Writers never pay for each other's fsync: all writes that arrive while one commit runs go into the next
// one together. [Bucket.Put] returns when its value is durable, [Bucket.PutLater] when a reader would see
// it; the latter becomes durable with the next commit, at the latest [flushDelay] later while [DB.Run] works.
//
// A commit that the disk refuses fails those who wait for it, and no more: what was written lazily, and the
// records of tasks, stay in memory for readers and for the next try, which comes every second. A durable
// [Bucket.Put] that failed is not tried again: the old value stays for readers as for the next agent process.
//
// Who writes what: client/allocs the buckets of allocations and steps, client/tasks that of tasks,
// client/volumes buckets of its own.
//
// A file that cannot be read is moved aside, loudly, and an empty one takes its place: what runs is then
// learned from the servers and from the mount table. A file that another agent holds is an error.
package store

//go:generate go run -modfile=../../tools/go.mod ../../cmd/nomad/codec.go . record.go
