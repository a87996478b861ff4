// Package disk is where a server keeps its raft log, vote and snapshots, and how a start reads them. One process uses a
// directory: a lock file is held while it is open.
package disk
