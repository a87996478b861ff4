// Package namespaces is the service of namespaces and node pools: the names that jobs, volumes and nodes
// are sorted by. It alone writes both tables.
//
// The namespace "default" and the node pools "default" and "all" are there from the start; they can
// not be deleted, and the pools not changed. A name that something still uses cannot be deleted
// either: the refusal, made inside Apply, says what uses it.
package namespaces
