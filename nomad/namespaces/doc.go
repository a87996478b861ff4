// Package namespaces is the service of namespaces and node pools: the names that jobs, volumes and nodes
// are sorted by. It alone writes both tables.
//
// The namespace "default" and the node pools "default" and "all" are there from the start; they can
// not be deleted, and the pools not changed. A name that is still in use cannot be deleted
// either: Apply returns an error that names the user.
package namespaces
